/* cuda_12_pool.cu: lists whose nodes all have one size come from a pool. */
#include "cuda_example.h"

/* [docs pool */
struct node {
    node *next;
    int key;
};

/* Each thread puts its number in front of the list of its bucket. */
__global__ void insert(wh_pool_t pool, node **buckets, int n_buckets) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    node *n = static_cast<node *>(wh_pool_malloc(pool));
    if (n == nullptr) { /* the heap is full */
        return;
    }
    auto *bucket = reinterpret_cast<unsigned long long *>(&buckets[i % n_buckets]);
    unsigned long long seen = *bucket, expected;
    n->key = i;
    do {
        expected = seen;
        n->next = reinterpret_cast<node *>(expected);
        __threadfence(); /* the node is written before it is seen */
        seen = atomicCAS(bucket, expected, reinterpret_cast<unsigned long long>(n));
    } while (seen != expected);
}

__global__ void empty(wh_pool_t pool, node **buckets, int *sums) {
    const int i = threadIdx.x;
    for (node *n = buckets[i]; n != nullptr;) {
        node *next = n->next;
        sums[i] += n->key;
        wh_pool_free(pool, n);
        n = next;
    }
}
/* docs] */

int main() {
    const int n_buckets = 64, n = 4096;
    const example_heap h = example_open(64 << 20);
    node **buckets = example_shared<node *>(n_buckets);
    int *sums = example_shared<int>(n_buckets);
    wh_pool_t pool;
    must(wh_pool_make(h.heap, sizeof(node), &pool));
    insert<<<n / 256, 256>>>(pool, buckets, n_buckets);
    empty<<<1, n_buckets>>>(pool, buckets, sums);
    must(cudaDeviceSynchronize());
    int sum = 0;
    for (int i = 0; i < n_buckets; i++) {
        sum += sums[i];
    }
    return example_close(h, sum == n / 2 * (n - 1));
}
