/* simt/begin.h: opens the text of a header of ours, behind its own #includes; simt/end.h closes
 * it, before the next #include and before the header's last line. There is no include guard: each
 * header of ours includes the pair, once per piece of text, and not inside another pair. What lies
 * between is kept apart from the user's file. Internal: may change.
 *
 *   warnings  what a user asks for in C++ is not said of C that C++ reads: that casts are C's, NULL
 *             a zero, and {0} names no member. Other warnings are heard, and there are none of
 *             -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wundef
 *   macros    a macro of the user whose name we use is put aside, and comes back behind us:
 *             `#define small char`, `#define free(p) wh_free(g_heap, p)`, Qt's `slots`. Names
 *             of fields that users read or fill in are left alone, since they have to be the same
 *             there and here (but `weak` and `unused`, attributes to some)
 *             Macros of a single lower-case letter are not put aside (but `h`)
 *   types     NVRTC has no stdint.h. Some programs bring one, some libraries have typedefs of
 *             their own, and all differ (unsigned long, unsigned long long). So uint64_t and the
 *             like stand for types of ours (simt/target.h) here, and for nothing behind us. If
 *             the user has a macro of that name it is taken instead: NVRTC cannot put macros
 *             aside
 */
#if WH_HAS_HOST

#if defined(__cplusplus)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wzero-as-null-pointer-constant"
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuseless-cast"
#endif
#endif

#pragma push_macro("acquire")
#undef acquire
#pragma push_macro("add")
#undef add
#pragma push_macro("aligned")
#undef aligned
#pragma push_macro("all")
#undef all
#pragma push_macro("any")
#undef any
#pragma push_macro("begin")
#undef begin
#pragma push_macro("bit")
#undef bit
#pragma push_macro("bits")
#undef bits
#pragma push_macro("chunk")
#undef chunk
#pragma push_macro("clock")
#undef clock
#pragma push_macro("count")
#undef count
#pragma push_macro("each")
#undef each
#pragma push_macro("end")
#undef end
#pragma push_macro("error")
#undef error
#pragma push_macro("exchange")
#undef exchange
#pragma push_macro("far")
#undef far
#pragma push_macro("fast")
#undef fast
#pragma push_macro("floor")
#undef floor
#pragma push_macro("free")
#undef free
#pragma push_macro("full")
#undef full
#pragma push_macro("heap")
#undef heap
#pragma push_macro("high")
#undef high
#pragma push_macro("index")
#undef index
#pragma push_macro("is")
#undef is
#pragma push_macro("kind")
#undef kind
#pragma push_macro("lane")
#undef lane
#pragma push_macro("leader")
#undef leader
#pragma push_macro("left")
#undef left
#pragma push_macro("level")
#undef level
#pragma push_macro("limit")
#undef limit
#pragma push_macro("link")
#undef link
#pragma push_macro("list")
#undef list
#pragma push_macro("lock")
#undef lock
#pragma push_macro("log2")
#undef log2
#pragma push_macro("low")
#undef low
#pragma push_macro("malloc")
#undef malloc
#pragma push_macro("map")
#undef map
#pragma push_macro("mask")
#undef mask
#pragma push_macro("max")
#undef max
#pragma push_macro("min")
#undef min
#pragma push_macro("n")
#undef n
#pragma push_macro("near")
#undef near
#pragma push_macro("next")
#undef next
#pragma push_macro("none")
#undef none
#pragma push_macro("noinline")
#undef noinline
#pragma push_macro("noreturn")
#undef noreturn
#pragma push_macro("of")
#undef of
#pragma push_macro("open")
#undef open
#pragma push_macro("owns")
#undef owns
#pragma push_macro("page")
#undef page
#pragma push_macro("part")
#undef part
#pragma push_macro("pool")
#undef pool
#pragma push_macro("puts")
#undef puts
#pragma push_macro("random")
#undef random
#pragma push_macro("rank")
#undef rank
#pragma push_macro("relaxed")
#undef relaxed
#pragma push_macro("release")
#undef release
#pragma push_macro("row")
#undef row
#pragma push_macro("rows")
#undef rows
#pragma push_macro("round")
#undef round
#pragma push_macro("set")
#undef set
#pragma push_macro("sets")
#undef sets
#pragma push_macro("side")
#undef side
#pragma push_macro("size")
#undef size
#pragma push_macro("skip")
#undef skip
#pragma push_macro("slab")
#undef slab
#pragma push_macro("slot")
#undef slot
#pragma push_macro("slots")
#undef slots
#pragma push_macro("small")
#undef small
#pragma push_macro("some")
#undef some
#pragma push_macro("state")
#undef state
#pragma push_macro("step")
#undef step
#pragma push_macro("sum")
#undef sum
#pragma push_macro("tag")
#undef tag
#pragma push_macro("text")
#undef text
#pragma push_macro("total")
#undef total
#pragma push_macro("unused")
#undef unused
#pragma push_macro("value")
#undef value
#pragma push_macro("weak")
#undef weak
#pragma push_macro("word")
#undef word
#pragma push_macro("words")
#undef words

#else

#ifndef uint8_t
#define uint8_t wh_uint8_t
#define WH_BEGUN_uint8_t
#endif
#ifndef uint32_t
#define uint32_t wh_uint32_t
#define WH_BEGUN_uint32_t
#endif
#ifndef uint64_t
#define uint64_t wh_uint64_t
#define WH_BEGUN_uint64_t
#endif
#ifndef int32_t
#define int32_t wh_int32_t
#define WH_BEGUN_int32_t
#endif
#ifndef int64_t
#define int64_t wh_int64_t
#define WH_BEGUN_int64_t
#endif
#ifndef uintptr_t
#define uintptr_t wh_uintptr_t
#define WH_BEGUN_uintptr_t
#endif
#ifndef UINT32_MAX
#define UINT32_MAX 4294967295u
#define WH_BEGUN_UINT32_MAX
#endif
#ifndef UINT64_MAX
#define UINT64_MAX 0xffffffffffffffffu
#define WH_BEGUN_UINT64_MAX
#endif
#ifndef SIZE_MAX
#define SIZE_MAX 0xffffffffffffffffu
#define WH_BEGUN_SIZE_MAX
#endif
#ifndef NULL
#define NULL 0
#define WH_BEGUN_NULL
#endif
#ifndef offsetof
#define offsetof(type, member) ((size_t) & ((type *)0)->member)
#define WH_BEGUN_offsetof
#endif

#endif
