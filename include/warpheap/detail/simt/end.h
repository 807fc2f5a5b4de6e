/* simt/end.h: closes what simt/begin.h opened. No include guard. Internal: may change. */
#if WH_HAS_HOST

#pragma pop_macro("words")
#pragma pop_macro("word")
#pragma pop_macro("weak")
#pragma pop_macro("value")
#pragma pop_macro("unused")
#pragma pop_macro("total")
#pragma pop_macro("text")
#pragma pop_macro("tag")
#pragma pop_macro("sum")
#pragma pop_macro("step")
#pragma pop_macro("state")
#pragma pop_macro("some")
#pragma pop_macro("small")
#pragma pop_macro("slots")
#pragma pop_macro("slot")
#pragma pop_macro("slab")
#pragma pop_macro("skip")
#pragma pop_macro("size")
#pragma pop_macro("side")
#pragma pop_macro("sets")
#pragma pop_macro("set")
#pragma pop_macro("round")
#pragma pop_macro("rows")
#pragma pop_macro("row")
#pragma pop_macro("release")
#pragma pop_macro("relaxed")
#pragma pop_macro("rank")
#pragma pop_macro("random")
#pragma pop_macro("puts")
#pragma pop_macro("pool")
#pragma pop_macro("part")
#pragma pop_macro("page")
#pragma pop_macro("owns")
#pragma pop_macro("open")
#pragma pop_macro("of")
#pragma pop_macro("noreturn")
#pragma pop_macro("noinline")
#pragma pop_macro("none")
#pragma pop_macro("next")
#pragma pop_macro("near")
#pragma pop_macro("n")
#pragma pop_macro("min")
#pragma pop_macro("max")
#pragma pop_macro("mask")
#pragma pop_macro("map")
#pragma pop_macro("malloc")
#pragma pop_macro("low")
#pragma pop_macro("log2")
#pragma pop_macro("lock")
#pragma pop_macro("list")
#pragma pop_macro("link")
#pragma pop_macro("limit")
#pragma pop_macro("level")
#pragma pop_macro("left")
#pragma pop_macro("leader")
#pragma pop_macro("lane")
#pragma pop_macro("kind")
#pragma pop_macro("is")
#pragma pop_macro("index")
#pragma pop_macro("high")
#pragma pop_macro("heap")
#pragma pop_macro("full")
#pragma pop_macro("free")
#pragma pop_macro("floor")
#pragma pop_macro("fast")
#pragma pop_macro("far")
#pragma pop_macro("exchange")
#pragma pop_macro("error")
#pragma pop_macro("end")
#pragma pop_macro("each")
#pragma pop_macro("count")
#pragma pop_macro("clock")
#pragma pop_macro("chunk")
#pragma pop_macro("bits")
#pragma pop_macro("bit")
#pragma pop_macro("begin")
#pragma pop_macro("any")
#pragma pop_macro("all")
#pragma pop_macro("aligned")
#pragma pop_macro("add")
#pragma pop_macro("acquire")

#if defined(__cplusplus)
#pragma GCC diagnostic pop
#endif

#else

#ifdef WH_BEGUN_uint8_t
#undef uint8_t
#undef WH_BEGUN_uint8_t
#endif
#ifdef WH_BEGUN_uint32_t
#undef uint32_t
#undef WH_BEGUN_uint32_t
#endif
#ifdef WH_BEGUN_uint64_t
#undef uint64_t
#undef WH_BEGUN_uint64_t
#endif
#ifdef WH_BEGUN_int32_t
#undef int32_t
#undef WH_BEGUN_int32_t
#endif
#ifdef WH_BEGUN_int64_t
#undef int64_t
#undef WH_BEGUN_int64_t
#endif
#ifdef WH_BEGUN_uintptr_t
#undef uintptr_t
#undef WH_BEGUN_uintptr_t
#endif
#ifdef WH_BEGUN_UINT32_MAX
#undef UINT32_MAX
#undef WH_BEGUN_UINT32_MAX
#endif
#ifdef WH_BEGUN_UINT64_MAX
#undef UINT64_MAX
#undef WH_BEGUN_UINT64_MAX
#endif
#ifdef WH_BEGUN_SIZE_MAX
#undef SIZE_MAX
#undef WH_BEGUN_SIZE_MAX
#endif
#ifdef WH_BEGUN_NULL
#undef NULL
#undef WH_BEGUN_NULL
#endif
#ifdef WH_BEGUN_offsetof
#undef offsetof
#undef WH_BEGUN_offsetof
#endif

#endif
