/* standin.h: what a test asks of the stand-in for the CUDA runtime. It has N_DEVICES devices of
 * host memory, remembers on which one each call ran, and refuses a call on a stream, an event or a
 * block of memory of another device than the current one, which the real runtime may let pass. */
#ifndef STANDIN_H
#define STANDIN_H

#define STANDIN_DEVICES 2

#ifdef __cplusplus
extern "C" {
#endif

/* Calls that touched a device, that was the current one, since the last standin_forget. */
unsigned standin_calls_on(int device);
/* ... and those among them that waited for a whole device, or set the current device. */
unsigned standin_waits_for_device(void);
void standin_forget(void);
/* Calls that used something of another device than the current one: the fault to look for. */
unsigned standin_strays(void);
/* The next call but `after` of the runtime fails with error (a cudaError_t); 0: none does. */
void standin_fail(int error, unsigned after);
/* What cudaGetDeviceCount says: a number of devices, or an error. */
void standin_set_count(int count, int error);
/* Whether memory can be had in stream order. */
void standin_set_pools(int pools);
/* A pool of memory, for as long as the program runs, and blocks that have been had of it. */
struct standin_pool *standin_pool(void);
unsigned standin_from_pool(void);
/* Blocks of memory, streams and events that are there. */
unsigned standin_alive(void);
/* Reserved ranges of addresses, and pieces of memory for them. */
unsigned standin_mapped(void);

/* What links between the devices can do. */
void standin_set_links(int access, int atomics);
/* Whether kernels of a device could read this byte, of memory of cudaMalloc, a pool or a mapping of
 * either device. */
int standin_can_read(int device, const void *p);
/* Peer access of all memory of cudaMalloc, and of pools, ends. */
void standin_close_links(void);

/* For driver.c: the pool that p is of. For runtime.c: whether the device may use a mapping there.
 */
struct standin_pool *standin_pool_of(const void *p);
int standin_maps(int device, const void *p);
/* For driver.c: a call on something of this device, -2: of any; a misuse. */
int standin_touch(int owner);
void standin_stray(void);

#ifdef __cplusplus
}
#endif

#endif
