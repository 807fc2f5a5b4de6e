/* 20_containers.cpp: objects and containers in kernels. One kernel writes numbers as products of
 * primes, whose factors it keeps in vectors, to strings in the heap; another one sorts the strings
 * out and ends them. Then objects with virtual functions. The same file builds for the GPU
 * (nvcc -x cu) and for the simulated device (any C++14 compiler).
 *
 *     20_containers [DEVICE] */
#include <cstdio>
#include <cstring>

/* [cpp include */
#define WH_KERNEL_THREADS 128 /* the most that a block has here: each may have 255 registers */
#include <warpheap/warpheap.hpp>
/* cpp] */

#define NUMBERS 512u
#define LINE_BYTES 64u

struct args {
    wh::heap_ref heap;
    wh::string **texts; /* of each number; nullptr: the heap was full */
    char *lines;        /* LINE_BYTES each */
};

/* [cpp vector */
/* The prime factors of n, of which nobody knows before how many there are. */
WH_DEVICE bool factors_of(uint32_t n, wh::vector<uint32_t> &factors) {
    for (uint32_t p = 2; p * p <= n; p++) {
        for (; n % p == 0; n /= p) {
            if (!factors.push_back(p)) {
                return false; /* the heap is full; what was found is still there */
            }
        }
    }
    return n == 1 || factors.push_back(n);
}
/* cpp] */

/* [cpp string */
WH_DEVICE bool write_product(wh::string &text, uint32_t n, wh::span<const uint32_t> factors) {
    bool done = text.append_int(n);
    for (size_t i = 0; done && i < factors.size(); i++) {
        done = text.append(i == 0 ? " = " : " * ") && text.append_int(factors[i]);
    }
    return done;
}
/* cpp] */

/* [cpp objects */
WH_KERNEL(write_all, args, a) {
    const uint32_t n = static_cast<uint32_t>(wh_thread_id());
    wh::vector<uint32_t> factors(a.heap);
    /* A string that outlives the kernel is an object of the heap. */
    wh::string *text = wh::make<wh::string>(a.heap, a.heap);
    const bool done =
        text != nullptr && (n < 2 || factors_of(n, factors)) && write_product(*text, n, factors);
    if (!done) {
        wh::destroy(a.heap, text); /* and its memory; nullptr is ignored */
        text = nullptr;
    }
    a.texts[n] = text;
} /* the vector's memory goes back here */

WH_KERNEL(read_all, args, a) {
    const uint32_t n = static_cast<uint32_t>(wh_thread_id());
    wh::string *text = a.texts[n];
    for (size_t i = 0; text != nullptr && i <= text->size() && i < LINE_BYTES; i++) {
        a.lines[n * LINE_BYTES + i] = text->c_str()[i];
    }
    wh::destroy(a.heap, text);
}
/* cpp] */

/* [cpp virtual */
struct shape {
    WH_DEVICE virtual double area() const = 0;
    WH_DEVICE virtual ~shape() {
    }
};
struct circle : shape {
    double r;
    WH_DEVICE explicit circle(double radius) : r(radius) {
    }
    WH_DEVICE double area() const override {
        return 3.140625 * r * r;
    }
};
struct polygon : shape { /* has memory of its own */
    wh::vector<double> x, y;
    WH_DEVICE explicit polygon(const wh::heap_ref &heap) : x(heap), y(heap) {
    }
    WH_DEVICE bool add(double px, double py) {
        return x.push_back(px) && y.push_back(py);
    }
    WH_DEVICE double area() const override {
        double twice = 0;
        for (size_t i = 0, k = y.size() - 1; i < y.size(); k = i++) {
            twice += x[k] * y[i] - x[i] * y[k];
        }
        return twice / 2;
    }
};
/* cpp] */

struct shape_args {
    wh::heap_ref heap;
    shape **shapes;
    double *areas;
};
WH_KERNEL(make_shapes, shape_args, a) {
    const uint32_t t = static_cast<uint32_t>(wh_thread_id());
    if (t % 2 == 0) {
        a.shapes[t] = new (a.heap) circle(t); /* nullptr: the heap is full */
        return;
    }
    polygon *p = wh::make<polygon>(a.heap, a.heap);
    if (p != nullptr && !(p->add(0, 0) && p->add(t, 0) && p->add(t, t) && p->add(0, t))) {
        wh::destroy(a.heap, p);
        p = nullptr;
    }
    a.shapes[t] = p;
}
WH_KERNEL(measure_shapes, shape_args, a) {
    const uint32_t t = static_cast<uint32_t>(wh_thread_id());
    a.areas[t] = a.shapes[t] != nullptr ? a.shapes[t]->area() : -1;
    wh::destroy(a.heap, a.shapes[t]);
}

static int must(wh_status status) {
    if (status != WH_OK) {
        std::printf("%s\n%s\n", wh_status_text(status), wh_last_error_text());
    }
    return status == WH_OK;
}

static int has_right_lines(wh_device *device, const wh::heap &heap) {
    static char lines[NUMBERS][LINE_BYTES];
    args a;
    void *texts = nullptr, *out = nullptr;
    const wh_launch launch = wh_grid(device, NUMBERS / 128, 128);
    a.heap = heap.ref();
    if (!must(wh_device_alloc(device, &texts, NUMBERS * sizeof(wh::string *))) ||
        !must(wh_device_alloc(device, &out, sizeof lines)) ||
        !must(wh_device_set(device, out, 0, sizeof lines))) {
        return 0;
    }
    a.texts = static_cast<wh::string **>(texts);
    a.lines = static_cast<char *>(out);
    if (!must(write_all(&launch, &a)) || !must(read_all(&launch, &a)) ||
        !must(wh_device_copy_out(device, lines, out, sizeof lines))) {
        return 0;
    }
    (void)wh_device_free(device, texts);
    (void)wh_device_free(device, out);
    std::printf("%s\n%s\n", lines[360], lines[509]);
    return std::strcmp(lines[360], "360 = 2 * 2 * 2 * 3 * 3 * 5") == 0 &&
           std::strcmp(lines[509], "509 = 509") == 0 && std::strcmp(lines[1], "1") == 0;
}

static int has_right_areas(wh_device *device, const wh::heap &heap) {
    double areas[64];
    shape_args a;
    void *shapes = nullptr, *out = nullptr;
    const wh_launch launch = wh_grid(device, 1, 64);
    a.heap = heap.ref();
    if (!must(wh_device_alloc(device, &shapes, 64 * sizeof(shape *))) ||
        !must(wh_device_alloc(device, &out, sizeof areas))) {
        return 0;
    }
    a.shapes = static_cast<shape **>(shapes);
    a.areas = static_cast<double *>(out);
    if (!must(make_shapes(&launch, &a)) || !must(measure_shapes(&launch, &a)) ||
        !must(wh_device_copy_out(device, areas, out, sizeof areas))) {
        return 0;
    }
    (void)wh_device_free(device, shapes);
    (void)wh_device_free(device, out);
    int right = 1;
    for (int t = 0; t < 64; t++) {
        right &= areas[t] == (t % 2 == 0 ? 3.140625 : 1.0) * t * t;
    }
    return right;
}

int main(int argc, char **argv) {
    try {
        /* [cpp owners */
        wh::device device(argc > 1 ? argv[1] : WH_TARGET_NAME);
        wh::heap heap(wh::heap_options(64 << 20).set_device(device));
        /* cpp] */
        const int right = has_right_lines(device.get(), heap) & has_right_areas(device.get(), heap);
        const uint64_t left = heap.stats().live_blocks;
        std::printf("%s, %d blocks left\n", right ? "right" : "wrong", static_cast<int>(left));
        return right && left == 0 ? 0 : 1;
    } catch (const wh::error &e) {
        std::printf("%s\n", e.what());
        return e.code() == WH_NO_DEVICE ? 77 : 1;
    }
}
