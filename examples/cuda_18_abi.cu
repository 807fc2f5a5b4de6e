/* cuda_18_abi.cu: kernels that know the heap by one word, and call functions that are linked:
 * warpheap_abi.h, which includes nothing. The host half is as ever. */
#include "cuda_example.h"

/* [abi kernel */
#include <warpheap/warpheap_abi.h>

/* The words of a text, each in a block of its own. */
__global__ void copy_words(wh_abi1_heap heap, const char *text, const int *begins, char **words) {
    const int i = threadIdx.x, n = begins[i + 1] - begins[i];
    char *word = static_cast<char *>(wh_abi1_malloc(heap, n + 1));
    for (int k = 0; word != nullptr && k < n; k++) { /* nullptr: the heap is full */
        word[k] = text[begins[i] + k];
    }
    if (word != nullptr) {
        word[n] = '\0';
    }
    words[i] = word;
}

__global__ void free_words(wh_abi1_heap heap, char **words) {
    wh_abi1_free(heap, words[threadIdx.x]);
}
/* abi] */

int main() {
    const example_heap h = example_open(16 << 20);
    const char said[] = "any thread may allocate";
    const int n = 4, at[n + 1] = {0, 4, 11, 15, 23};
    char *text = example_shared<char>(sizeof said);
    int *begins = example_shared<int>(n + 1);
    char **words = example_shared<char *>(n), second[8] = {};
    for (size_t i = 0; i < sizeof said; i++) {
        text[i] = said[i];
    }
    for (int i = 0; i <= n; i++) {
        begins[i] = at[i];
    }
    /* [abi host */
    unsigned long long handle = 0;
    must(wh_heap_abi1_handle(h.heap, &handle)); /* one word, good until the heap is destroyed */
    copy_words<<<1, n>>>(handle, text, begins, words);
    /* abi] */
    must(cudaDeviceSynchronize());
    must(cudaMemcpy(second, words[1], sizeof second, cudaMemcpyDeviceToHost));
    const bool right = second[0] == 't' && second[5] == 'd' && second[7] == '\0';
    free_words<<<1, n>>>(handle, words);
    return example_close(h, right);
}
