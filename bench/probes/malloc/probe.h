/* probe.h: what the files of malloc_probe.cu share. */
#ifndef PROBE_H
#define PROBE_H

struct wh_heap;

struct probe_work {
    unsigned **blocks;
    unsigned *wrong;
    unsigned threads, bytes;
};

struct probe_module {
    const char *name;
    int (*set)(wh_heap *heap); /* a wh_status; NULL: it has CUDA's malloc */
    const void *get, *give, *objects;
};

probe_module cuda_module();         /* cuda_own.cu */
probe_module included_module();     /* included.cu */
probe_module included_rdc_module(); /* included_rdc.cu */

#endif
