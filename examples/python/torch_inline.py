#!/usr/bin/env python3
"""torch_inline.py: an extension of PyTorch (load_inline, nvcc) whose kernels allocate, in a heap
that lies in a tensor, on PyTorch's current stream. Exit status 77: no PyTorch, no nvcc, or no GPU.
"""
import shutil
import sys

try:
    import torch
    from torch.utils.cpp_extension import CUDA_HOME, load_inline
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
import warpheap

CUDA = r"""
#include <cstring>
#include <stdexcept>
#include <string>
#include <c10/cuda/CUDAStream.h>
#include <warpheap/warpheap.h>

/* Thread i: keeps the positive elements of row i, however many there are. NULL: the heap is full */
__global__ void __launch_bounds__(256) keep(wh_heap_ref heap, const float *x, int rows, int columns,
                                            float **kept, long *lengths) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows) return;
    long n = 0;
    for (int k = 0; k < columns; k++) n += x[(long)i * columns + k] > 0;
    kept[i] = (float *)wh_malloc(heap, n * sizeof(float));
    lengths[i] = kept[i] != NULL ? n : 0;
    for (int k = 0, at = 0; kept[i] != NULL && k < columns; k++) {
        const float value = x[(long)i * columns + k];
        if (value > 0) kept[i][at++] = value;
    }
}
__global__ void __launch_bounds__(256) drop(wh_heap_ref heap, int rows, float **kept) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows) wh_free(heap, kept[i]);
}

/* The handle comes as bytes: Heap.handle_struct. */
static wh_heap_ref handle_of(const std::string &bytes) {
    wh_heap_ref heap;
    if (bytes.size() != sizeof heap) throw std::runtime_error("not a handle of these headers");
    std::memcpy(&heap, bytes.data(), sizeof heap);
    return heap;
}
void keep_positive(std::string heap, torch::Tensor x, torch::Tensor kept, torch::Tensor lengths) {
    const int rows = x.size(0);
    keep<<<(rows + 255) / 256, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
        handle_of(heap), x.data_ptr<float>(), rows, x.size(1), (float **)kept.data_ptr<int64_t>(),
        (long *)lengths.data_ptr<int64_t>());
}
void drop_all(std::string heap, torch::Tensor kept) {
    const int rows = kept.size(0);
    drop<<<(rows + 255) / 256, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
        handle_of(heap), rows, (float **)kept.data_ptr<int64_t>());
}
"""
CPP = """#include <string>
void keep_positive(std::string heap, torch::Tensor x, torch::Tensor kept, torch::Tensor lengths);
void drop_all(std::string heap, torch::Tensor kept);
"""
ROWS = 2000


def main():
    if not torch.cuda.is_available() or not (CUDA_HOME or shutil.which("nvcc")):
        print("skipped: there is no GPU, or no nvcc")
        return 77
    module = load_inline("warpheap_example", CPP, CUDA, functions=["keep_positive", "drop_all"],
                         extra_include_paths=[warpheap.get_include()], with_cuda=True)
    x = torch.randn(ROWS, 300, device="cuda")
    kept, lengths = (torch.zeros(ROWS, dtype=torch.int64, device="cuda") for _ in range(2))
    memory = torch.empty(32 << 20, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    with warpheap.Heap(None, "cuda", memory=memory) as heap:
        stream = torch.cuda.current_stream()
        module.keep_positive(heap.handle_struct, x, kept, lengths)
        live = heap.stats(stream)["live_blocks"]
        good = True
        for i in range(0, ROWS, 97):  # a view is a tensor, where the block is
            row = heap.view(int(kept[i]), int(lengths[i]), torch.float32)
            good = good and torch.equal(torch.as_tensor(row, device="cuda"), x[i][x[i] > 0])
        module.drop_all(heap.handle_struct, kept)
        left = heap.stats(stream)["live_blocks"]
        heap.check(stream)
    print(f"{live} rows, {'right' if good else 'WRONG'}, {left} blocks left")
    return 0 if good and live == ROWS and left == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
