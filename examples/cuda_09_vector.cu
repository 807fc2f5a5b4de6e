/* cuda_09_vector.cu: a vector whose members are __host__ __device__. It grows in kernels; on
 * the host, where the memory of the heap cannot be handed out, push says so. */
#include "cuda_example.h"

/* [docs vector */
template <class T> class device_vector {
  public:
    __host__ __device__ explicit device_vector(wh_heap_ref heap) : heap_(heap) {
    }

    __host__ __device__ int size() const {
        return n_;
    }
    __host__ __device__ T &operator[](int i) {
        return data_[i];
    }

    /* false: there was no memory. On the host there never is. */
    __host__ __device__ bool push(const T &value) {
        if (n_ == room_) {
            const int room = room_ != 0 ? 2 * room_ : 4;
            void *p = wh_realloc(heap_, data_, room * sizeof(T));
            if (p == nullptr) {
                return false; /* what the vector holds is still there */
            }
            data_ = static_cast<T *>(p);
            room_ = room;
        }
        data_[n_++] = value;
        return true;
    }

    __host__ __device__ void clear() {
        wh_free(heap_, data_);
        data_ = nullptr;
        n_ = room_ = 0;
    }

  private:
    wh_heap_ref heap_;
    T *data_ = nullptr;
    int n_ = 0, room_ = 0;
};
/* docs] */

/* Members of a template are compiled where they are used; this asks for all, on both sides. */
template class device_vector<int>;

/* sums[i]: the sum of all divisors of i + 1, of which it is not known how many there are. */
__global__ void divisors(wh_heap_ref heap, int *sums, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        device_vector<int> found(heap);
        for (int d = 1; d <= i + 1; d++) {
            if ((i + 1) % d == 0 && !found.push(d)) {
                sums[i] = -1;
            }
        }
        for (int k = 0; sums[i] >= 0 && k < found.size(); k++) {
            sums[i] += found[k];
        }
        found.clear();
    }
}

int main() {
    const int n = 500;
    const example_heap h = example_open(16 << 20);
    int *sums = example_shared<int>(n);
    device_vector<int> on_host(h.handle);
    divisors<<<(n + 127) / 128, 128>>>(h.handle, sums, n);
    must(cudaDeviceSynchronize());
    bool right = !on_host.push(1) && on_host.size() == 0;
    std::printf("on the host: %s\n", wh_last_error_text());
    for (int i = 0; i < n; i++) {
        int sum = 0;
        for (int d = 1; d <= i + 1; d++) {
            sum += (i + 1) % d == 0 ? d : 0;
        }
        right = right && sums[i] == sum;
    }
    return example_close(h, right);
}
