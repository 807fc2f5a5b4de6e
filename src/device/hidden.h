/* hidden.h: for the end of each .cu file of this folder. What comes behind it is nvcc's own code,
 * which registers the file at start with the functions that the device link of a program makes.
 * Those are public, and the dynamic linker gives all modules that link this file (a program and its
 * shared library) the first one's; then the kernels of the others are never registered. Hidden
 * here, they are hidden in the whole module. Not so what that code calls of the CUDA runtime, which
 * may be in a shared library. */
#if defined(__GNUC__) && !defined(__CUDA_ARCH__)
extern "C" {
#pragma GCC visibility push(default)
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext,
                       size_t size, int constant, int global);
char __cudaInitModule(void **handle);
void __cudaUnregisterFatBinary(void **handle);
#pragma GCC visibility pop
}
#endif
#ifdef __GNUC__
#pragma GCC visibility push(hidden)
#endif
