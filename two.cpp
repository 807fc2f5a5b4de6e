#include <cstdio>
#include <warpheap/warpheap.h>
#include <warpheap/alloc/bump/bump.h>
int main() { wh_heap *h; wh_heap_options o = {}; o.bytes = 1 << 24; o.allocator = "bump"; wh_status s = wh_heap_create(&h, &o); std::printf("%s\n", wh_status_name(s)); wh_heap_t t; s = wh_heap_handle(h, &t); std::printf("%s: %s / %s\n", wh_status_name(s), wh_status_text(s), wh_last_error_text());
 wh_stats st; s = wh_heap_get_stats(h, &st); std::printf("stats %s\n", wh_status_name(s)); s = wh_heap_check(h, nullptr); std::printf("check %s\n", wh_status_name(s)); uint64_t n; s = wh_heap_blocks_left(h, 16, &n); std::printf("left %s\n", wh_status_name(s)); s=wh_heap_walk(h,[](void*,void*,uint64_t){return 0;},nullptr); std::printf("walk %s %s\n", wh_status_name(s), wh_last_error_text()); }
