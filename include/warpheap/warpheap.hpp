/* warpheap.hpp: warpheap for C++: heaps that the host owns, objects and containers in kernels.
 *
 *     #include <warpheap/warpheap.hpp>
 *
 *     __global__ void divisors(wh::heap_ref heap, int *sums) {
 *         const int i = blockIdx.x * blockDim.x + threadIdx.x;
 *         wh::vector<int> found(heap);
 *         for (int d = 1; d <= i; d++) {
 *             if (i % d == 0 && !found.push_back(d)) { ... }   // false: the heap is full
 *         }
 *         for (int d : found) { sums[i] += d; }
 *     }                                                        // its memory goes back
 *
 *     wh::heap heap(64 << 20);
 *     divisors<<<4, 256>>>(heap.ref(), sums);
 *
 * docs/CPP.md begins with what one wants to do. C++14 and later: nvcc, clang, and any C++ compiler
 * for the simulated device (WH_KERNEL, simt.h). Templates over the calls of warpheap.h: there is
 * nothing else to link, and no other part of the project needs it.
 *
 *   hpp/heap.hpp      host: wh::heap, wh::device, wh::error, std::error_code of a wh_status
 *   hpp/base.hpp      wh::heap_ref, wh::span
 *   hpp/objects.hpp   wh::make, wh::destroy, new (heap) T, wh::allocator, wh::resource
 *   hpp/vector.hpp    wh::vector
 *   hpp/string.hpp    wh::string
 *   hpp/chars.hpp     wh::to_chars
 *   hpp/deque.hpp, hpp/list.hpp, hpp/bump_arena.hpp    wh::deque, wh::list, wh::bump_arena
 *   hpp/node_stack.hpp, hpp/mpmc_queue.hpp, hpp/hash_map.hpp    wh::stack, wh::queue,
 *                     wh::hash_map, wh::hash_set, which many threads share
 *
 * Device code throws nothing: a call that wants memory says whether there was some, by nullptr or
 * false, and leaves its container valid. WH_OOM_TRAP, WH_ON_OOM and WH_SITES (warpheap.h) hold for
 * these calls, too; the place that they name is in these headers.
 */
#ifndef WH_WARPHEAP_HPP
#define WH_WARPHEAP_HPP

#include "warpheap/hpp/base.hpp"
#include "warpheap/hpp/bump_arena.hpp"
#include "warpheap/hpp/chars.hpp"
#include "warpheap/hpp/deque.hpp"
#include "warpheap/hpp/hash_map.hpp"
#include "warpheap/hpp/heap.hpp"
#include "warpheap/hpp/list.hpp"
#include "warpheap/hpp/mpmc_queue.hpp"
#include "warpheap/hpp/node_stack.hpp"
#include "warpheap/hpp/objects.hpp"
#include "warpheap/hpp/string.hpp"
#include "warpheap/hpp/vector.hpp"

#endif
