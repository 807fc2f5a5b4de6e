/* comm.c: the communicator's calls, with all ranks there: what comes is what was sent, and what one
 * rank reports all know. faults.c has ranks that do not come. */
#include "ranks_test.h"

static unsigned char byte_of(int from, int to, uint64_t i) {
    return (unsigned char)(from * 31 + to * 7 + (int)(i % 251));
}

/* Each rank knows what each pair exchanges. */
static void exchange(wh_comm *c, wh_device *device) {
    wh_comm_buffer got = {0};
    void *on_device = NULL;
    got.device = device;
    if (device != NULL) {
        assert_int_equal(wh_device_alloc(device, &on_device, MOST_RANKS * 300000), WH_OK);
    }
    const int rank = wh_comm_rank(c), size = wh_comm_size(c);
    uint64_t random = 42;
    for (uint64_t round = 0; round < 20; round++) {
        uint64_t bytes[MOST_RANKS][MOST_RANKS], at = 0;
        for (int a = 0; a < size; a++) {
            for (int b = 0; b < size; b++) {
                const uint32_t most = round < 18 ? 4000 : 300000;
                bytes[a][b] = below(&random, most);
                bytes[a][b] *= below(&random, 3) != 0;
            }
        }
        unsigned char *data = malloc((size_t)size * 300000);
        assert_non_null(data);
        for (int to = 0; to < size; to++) {
            for (uint64_t i = 0; i < bytes[rank][to]; i++) {
                data[at++] = byte_of(rank, to, i);
            }
        }
        if (at != 0 && device != NULL) {
            assert_int_equal(wh_device_copy_in(device, on_device, data, at), WH_OK);
        }
        expect_ok(c, wh_comm_all_to_all(c, device != NULL ? on_device : data, bytes[rank], &got));
        const unsigned char *came = got.data;
        if (device != NULL && got.offset[size] != 0) {
            assert_int_equal(wh_device_copy_out(device, data, got.data, got.offset[size]), WH_OK);
            came = data;
        }
        for (int from = 0; from < size; from++) {
            assert_int_equal(got.bytes[from], bytes[from][rank]);
            for (uint64_t i = 0; i < got.bytes[from]; i++) {
                assert_int_equal(came[got.offset[from] + i], byte_of(from, rank, i));
            }
        }
        free(data);
    }
    if (device != NULL) {
        assert_int_equal(wh_device_free(device, on_device), WH_OK);
    }
    wh_comm_buffer_free(&got);
}

static void all_to_all(void **state) {
    (void)state;
    for (uint64_t piece = 0; piece < 3; piece++) {
        wh_comm *c = open_comm(piece * 1000);
        exchange(c, NULL);
        expect_ok(c, wh_comm_close(c));
    }
}

/* Memory of devices, and on one rank of the host. */
static void all_to_all_of_devices(void **state) {
    (void)state;
    wh_comm *c = open_comm(5000);
    wh_device *device = open_device(NULL);
    exchange(c, device);
    exchange(c, wh_comm_rank(c) == 1 ? NULL : device);
    wh_device_close(device);
    expect_ok(c, wh_comm_close(c));
}

/* What is wrong on one rank all ranks are told, and go on. */
static void bad_arguments(void **state) {
    (void)state;
    wh_comm *c = open_comm(0);
    wh_comm_buffer got = {0};
    const int rank = wh_comm_rank(c), size = wh_comm_size(c), odd = rank == size - 1;
    uint64_t bytes[MOST_RANKS] = {0}, numbers[900] = {0};
    unsigned char data[MOST_RANKS] = {0};
    for (int r = 0; r < size; r++) {
        bytes[r] = 1;
    }
    for (int kind = 0; kind < 8; kind++) {
        const wh_comm_op op = odd && kind == 5 ? (wh_comm_op)7 : WH_COMM_SUM;
        const wh_comm_type type = odd && kind == 6 ? (wh_comm_type)9 : WH_COMM_U64;
        wh_status s = WH_OK;
        if (kind < 3) {
            s = wh_comm_all_to_all(c, odd && kind == 0 ? NULL : data,
                                   odd && kind == 1 ? NULL : bytes, odd && kind == 2 ? NULL : &got);
        } else if (kind < 5) {
            s = wh_comm_all_gather(c, odd && kind == 3 ? NULL : data, 1,
                                   odd && kind == 4 ? NULL : &got);
        } else {
            s = wh_comm_all_reduce(c, odd && kind == 7 ? NULL : numbers, 900, type, op);
        }
        assert_int_equal(s, WH_BAD_ARGUMENT);
        assert_int_equal(wh_comm_last_failure(c)->reason, WH_COMM_REPORTED);
        assert_int_equal(wh_comm_last_failure(c)->rank, size - 1);
        expect_ok(c, wh_comm_all_to_all(c, data, bytes, &got));
    }
    wh_comm_buffer_free(&got);
    expect_ok(c, wh_comm_close(c));
    MPI_Comm none = MPI_COMM_NULL; /* of MPI_Comm_split, for who has no part */
    wh_comm_options o;
    wh_comm_failure failure;
    memset(&o, 0, sizeof o);
    o.mpi_comm = &none;
    assert_int_equal(wh_comm_open_mpi(&c, &o, &failure), WH_BAD_ARGUMENT);
    assert_non_null(strstr(failure.text, "MPI_COMM_NULL"));
    /* Each call of what never opened ends with that failure; nothing is touched. */
    assert_int_equal(wh_comm_agree(c), WH_BAD_ARGUMENT);
    assert_int_equal(wh_comm_all_to_all(c, data, bytes, &got), WH_BAD_ARGUMENT);
    assert_int_equal(wh_comm_all_gather(c, data, 1, &got), WH_BAD_ARGUMENT);
    assert_int_equal(wh_comm_all_reduce(c, numbers, 2, WH_COMM_U64, WH_COMM_SUM), WH_BAD_ARGUMENT);
    assert_int_equal(wh_comm_close(c), WH_BAD_ARGUMENT);
}

/* What a rank has sent and got is counted; its own part is not sent. */
static void counts(void **state) {
    (void)state;
    wh_comm *c = open_comm(0);
    const int rank = wh_comm_rank(c), size = wh_comm_size(c);
    wh_comm_buffer got = {0};
    wh_comm_stats before, after;
    uint64_t bytes[MOST_RANKS], number = 1, sent = 0;
    char data[MOST_RANKS * 10] = {0};
    for (int r = 0; r < size; r++) {
        bytes[r] = (uint64_t)(r + 1);
        sent += r != rank ? bytes[r] : 0;
    }
    wh_comm_get_stats(c, &before);
    expect_ok(c, wh_comm_all_to_all(c, data, bytes, &got));
    expect_ok(c, wh_comm_all_gather(c, data, 5, &got));
    expect_ok(c, wh_comm_all_reduce(c, &number, 1, WH_COMM_U64, WH_COMM_SUM));
    wh_comm_get_stats(c, &after);
    const uint64_t others = (uint64_t)(size - 1);
    assert_int_equal(after.calls - before.calls, 3);
    assert_int_equal(after.lines - before.lines, 3 * 184 * others);
    assert_int_equal(after.sent - before.sent, sent + 5 * others);
    assert_int_equal(after.got - before.got, (uint64_t)(rank + 1) * others + 5 * others);
    assert_int_equal(after.reduced - before.reduced, size > 1 ? 8 : 0);
    assert_true(after.waited > before.waited && after.moved >= before.moved);
    wh_comm_buffer_free(&got);
    expect_ok(c, wh_comm_close(c));
}

static void gather(wh_comm *c, wh_device *device) {
    wh_comm_buffer got = {0};
    void *on_device = NULL;
    const int rank = wh_comm_rank(c), size = wh_comm_size(c);
    unsigned char own[MOST_RANKS * 100], came[MOST_RANKS * MOST_RANKS * 100];
    for (uint64_t i = 0; i < sizeof own; i++) {
        own[i] = byte_of(rank, 0, i);
    }
    got.device = device;
    if (device != NULL) {
        on_device = take(device, sizeof own);
        assert_int_equal(wh_device_copy_in(device, on_device, own, sizeof own), WH_OK);
    }
    for (int round = 0; round < 3; round++) {
        const void *data = device != NULL ? on_device : own;
        expect_ok(c, wh_comm_all_gather(c, data, (uint64_t)(rank * 100 + round), &got));
        if (device == NULL) {
            memcpy(came, got.data, got.offset[size]);
        } else if (got.offset[size] != 0) {
            assert_int_equal(wh_device_copy_out(device, came, got.data, got.offset[size]), WH_OK);
        }
        for (int from = 0; from < size; from++) {
            assert_int_equal(got.bytes[from], from * 100 + round);
            for (uint64_t i = 0; i < got.bytes[from]; i++) {
                assert_int_equal(came[got.offset[from] + i], byte_of(from, 0, i));
            }
        }
    }
    if (device != NULL) {
        assert_int_equal(wh_device_free(device, on_device), WH_OK);
    }
    wh_comm_buffer_free(&got);
}

static void all_gather(void **state) {
    (void)state;
    wh_comm *c = open_comm(64);
    wh_device *device = open_device(NULL);
    gather(c, NULL);
    gather(c, device);
    gather(c, wh_comm_rank(c) == 1 ? NULL : device);
    wh_device_close(device);
    expect_ok(c, wh_comm_close(c));
}

/* Numbers that the lines of another call add up; of one that fails, or the next one, none. */
static void add(void **state) {
    (void)state;
    wh_comm *c = open_comm(0);
    wh_comm_buffer got = {0};
    wh_comm_stats before, after;
    const uint64_t rank = (uint64_t)wh_comm_rank(c), size = (uint64_t)wh_comm_size(c);
    const uint64_t sum = size * (size + 1) / 2;
    uint64_t n[5] = {rank + 1, 1, UINT64_MAX, 2 * rank, 9};
    wh_comm_get_stats(c, &before);
    wh_comm_add(c, n, 4);
    expect_ok(c, wh_comm_agree(c));
    assert_true(n[0] == sum && n[1] == size && n[2] == 0 - size && n[3] == 2 * (sum - size));
    assert_true(n[4] == 9);
    wh_comm_add(c, &n[4], 1);
    expect_ok(c, wh_comm_all_gather(c, &rank, sizeof rank, &got));
    assert_true(n[4] == 9 * size && n[0] == sum);
    expect_ok(c, wh_comm_agree(c));
    assert_true(n[4] == 9 * size && n[0] == sum);
    wh_comm_add(c, n, 2);
    wh_comm_report(c, rank == size - 1 ? WH_UNSUPPORTED : WH_OK, "no numbers");
    assert_int_equal(wh_comm_agree(c), WH_UNSUPPORTED);
    assert_true(n[0] == sum && n[1] == size);
    wh_comm_get_stats(c, &after);
    assert_int_equal(after.reduced - before.reduced, size > 1 ? 40 : 0);
    wh_comm_buffer_free(&got);
    expect_ok(c, wh_comm_close(c));
}

/* No handle, no numbers or too many, no line: said as any other mistake, and nothing is touched. */
static void nothing_given(void **state) {
    (void)state;
    wh_comm *c = open_comm(0);
    wh_comm_buffer got = {0};
    const int odd = wh_comm_rank(c) == wh_comm_size(c) - 1;
    uint64_t n[5] = {1, 2, 3, 4, 5};
    assert_int_equal(wh_comm_agree(NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_comm_all_to_all(NULL, n, n, &got), WH_BAD_ARGUMENT);
    assert_int_equal(wh_comm_all_gather(NULL, n, 8, &got), WH_BAD_ARGUMENT);
    assert_int_equal(wh_comm_all_reduce(NULL, n, 1, WH_COMM_U64, WH_COMM_SUM), WH_BAD_ARGUMENT);
    assert_int_equal(wh_comm_give_up(NULL, WH_OUT_OF_MEMORY, "nobody"), WH_BAD_ARGUMENT);
    wh_comm_buffer_free(NULL);
    for (int kind = 0; kind < 2; kind++) {
        wh_comm_add(c, odd && kind == 0 ? NULL : n, odd && kind == 1 ? 5 : 2);
        assert_int_equal(wh_comm_agree(c), WH_BAD_ARGUMENT);
        assert_int_equal(wh_comm_last_failure(c)->reason, WH_COMM_REPORTED);
        assert_int_equal(wh_comm_last_failure(c)->rank, wh_comm_size(c) - 1);
        assert_true(n[0] == 1 && n[1] == 2);
    }
    wh_comm_add(c, NULL, 0);
    expect_ok(c, wh_comm_agree(c));
    wh_comm_report(c, odd ? WH_UNSUPPORTED : WH_OK, NULL);
    assert_int_equal(wh_comm_agree(c), WH_UNSUPPORTED);
    assert_null(strstr(wh_comm_last_failure(c)->text, "null"));
    expect_ok(c, wh_comm_close(c));
}

static void reduce_numbers(wh_comm *c, uint64_t numbers, wh_comm_op op) {
    const uint64_t rank = (uint64_t)wh_comm_rank(c), size = (uint64_t)wh_comm_size(c);
    const uint64_t sum = size * (size + 1) / 2, last = numbers - 1;
    const uint64_t factor[] = {sum, size, 1}, lower[] = {sum - size, size - 1, 0};
    uint64_t n[101];
    double x[101];
    for (uint64_t i = 0; i <= numbers; i++) {
        n[i] = i == last ? UINT64_MAX : (rank + 1) * (i + 1); /* a sum wraps */
        x[i] = (double)(rank * (i + 1)) / 4 - 1;
    }
    n[numbers] = 5; /* these stay */
    x[numbers] = 5;
    expect_ok(c, wh_comm_all_reduce(c, n, numbers, WH_COMM_U64, op));
    expect_ok(c, wh_comm_all_reduce(c, x, numbers, WH_COMM_F64, op));
    for (uint64_t i = 0; i < numbers; i++) {
        const double less = op == WH_COMM_SUM ? (double)size : 1;
        assert_true(i == last || n[i] == (i + 1) * factor[op]);
        assert_true(x[i] == (double)((i + 1) * lower[op]) / 4 - less);
    }
    assert_true(n[last] == (op == WH_COMM_SUM ? UINT64_MAX - size + 1 : UINT64_MAX));
    assert_true(n[numbers] == 5 && x[numbers] == 5);
}

/* Few go in lines, more by the engine. */
static void all_reduce(void **state) {
    static const uint64_t counts[] = {1, 2, 3, 4, 5, 100};
    (void)state;
    wh_comm *c = open_comm(80);
    for (wh_comm_op op = WH_COMM_SUM; op <= WH_COMM_MIN; op++) {
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            reduce_numbers(c, counts[i], op);
        }
        expect_ok(c, wh_comm_all_reduce(c, NULL, 0, WH_COMM_U64, op));
    }
    expect_ok(c, wh_comm_close(c));
}

/* All ranks say the same of the failure, and go on after a report. */
static void reports(void **state) {
    (void)state;
    wh_comm *c = open_comm(0);
    wh_comm_buffer got = {0};
    const int rank = wh_comm_rank(c), size = wh_comm_size(c);
    uint64_t bytes[MOST_RANKS] = {0}, one = 1;
    for (int r = 0; r < size; r++) {
        bytes[r] = 3;
    }
    for (int bad = 0; bad < size; bad++) {
        if (rank >= bad) { /* of several, the first rank's counts */
            wh_comm_report(c, WH_OUT_OF_MEMORY, rank == bad ? "no room here" : "nor here");
            wh_comm_report(c, WH_CORRUPT, "later");
        }
        wh_status s = WH_OK;
        switch (bad % 4) {
        case 0:
            s = wh_comm_agree(c);
            break;
        case 1:
            s = wh_comm_all_to_all(c, "abcabcabcabc" /* 3 each */, bytes, &got);
            break;
        case 2:
            s = wh_comm_all_gather(c, "abc", 3, &got);
            break;
        default:
            s = wh_comm_all_reduce(c, &one, 1, WH_COMM_U64, WH_COMM_SUM);
            break;
        }
        const wh_comm_failure *f = wh_comm_last_failure(c);
        assert_int_equal(s, WH_OUT_OF_MEMORY);
        assert_int_equal(f->status, WH_OUT_OF_MEMORY);
        assert_int_equal(f->reason, WH_COMM_REPORTED);
        assert_int_equal(f->rank, bad);
        assert_non_null(strstr(f->text, "no room here"));
        expect_ok(c, wh_comm_agree(c));
    }
    assert_int_equal(one, 1); /* nothing was added */
    wh_comm_buffer_free(&got);
    expect_ok(c, wh_comm_close(c));
}

/* Ranks that do not do the same: each says which rank it is. */
static void unequal(void **state) {
    (void)state;
    if (is_alone()) {
        skip();
    }
    for (int kind = 0; kind < 4; kind++) {
        wh_comm *c = open_comm(0);
        wh_comm_buffer got = {0};
        const int rank = wh_comm_rank(c), odd = wh_comm_size(c) - 1;
        uint64_t numbers[2] = {0};
        wh_status s = WH_OK;
        if (kind == 0) {
            wh_comm_expect(c, rank == odd, "numbers of legs");
            s = wh_comm_agree(c);
        } else if (kind == 1) {
            s = wh_comm_all_reduce(c, numbers, rank == odd ? 2 : 1, WH_COMM_U64, WH_COMM_SUM);
        } else if (kind == 2) {
            s = rank == odd ? wh_comm_all_gather(c, "a", 1, &got) : wh_comm_agree(c);
        } else { /* it has had enough: one call fewer */
            s = rank == odd ? wh_comm_close(c) : wh_comm_agree(c);
        }
        assert_int_equal(s, WH_BAD_ARGUMENT);
        if (kind != 3 || rank != odd) {
            char name[20];
            (void)snprintf(name, sizeof name, "rank %d", odd);
            assert_int_equal(wh_comm_last_failure(c)->reason, WH_COMM_UNEQUAL);
            assert_int_equal(wh_comm_last_failure(c)->rank, odd);
            assert_non_null(strstr(wh_comm_last_failure(c)->text, name));
            assert_int_equal(wh_comm_agree(c), WH_BAD_ARGUMENT); /* it is dead */
            assert_int_equal(wh_comm_close(c), WH_BAD_ARGUMENT);
        }
        wh_comm_buffer_free(&got);
    }
}

/* A rank that has no memory for what comes: too late to report it, so it is over. */
static void no_room(void **state) {
    (void)state;
    wh_comm *c = NULL;
    wh_comm_failure failure;
    wh_comm_options o;
    wh_comm_buffer got = {0};
    static unsigned char data[100000];
    int rank = 0, size = 0;
    memset(&o, 0, sizeof o);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &size);
    o.seconds = 60;
    o.most = rank == size - 1 ? sizeof data - (size == 1) : 0;
    assert_int_equal(wh_comm_open_mpi(&c, &o, &failure), WH_OK);
    expect_ok(c, wh_comm_all_gather(c, data, sizeof data / (uint64_t)size - 1, &got));
    wh_status s = wh_comm_all_gather(c, data, sizeof data, &got);
    s = s == WH_OK ? wh_comm_agree(c) : s; /* this rank may have had its data by then */
    assert_int_equal(s, WH_OUT_OF_MEMORY);
    assert_int_equal(wh_comm_last_failure(c)->reason, WH_COMM_ENGINE);
    assert_int_equal(wh_comm_last_failure(c)->rank, size - 1);
    assert_int_equal(wh_comm_close(c), WH_OUT_OF_MEMORY);
}

/* Where there are no NCCL or no GPUs, all ranks learn why. */
static void by_nccl(void **state) {
    (void)state;
    wh_comm *c = NULL;
    wh_comm_failure failure;
    wh_comm_options o;
    uint64_t n = 1;
    memset(&o, 0, sizeof o);
    memset(&failure, 0, sizeof failure);
    o.seconds = 30;
    int rank = 0, size = 0;
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &size);
    const uint32_t gpus = wh_device_cuda_count();
    char name[32];
    wh_device *device = NULL;
    (void)snprintf(name, sizeof name, "cuda:%u", gpus != 0 ? (unsigned)rank % gpus : 0);
    (void)wh_device_open(&device, name, NULL);
    o.device = device;
    const wh_status s = wh_comm_open_nccl(&c, &o, &failure);
    if (s != WH_OK) {
        wh_device_close(device);
        (void)wh_comm_close(c);
        assert_true(gpus == 0 || s == WH_UNSUPPORTED || (uint32_t)size > gpus);
        if (s == WH_BAD_ARGUMENT) {
            assert_non_null(strstr(failure.text, "are both on GPU"));
        }
        assert_int_equal(failure.status, s);
        assert_true(failure.text[0] != '\0');
        print_message("left out: %s\n", failure.text);
        return;
    }
    exchange(c, NULL);
    exchange(c, device);
    wh_device_close(device);
    assert_int_equal(wh_device_open(&device, "sim", NULL), WH_OK); /* through the host */
    exchange(c, device);
    wh_device_close(device);
    expect_ok(c, wh_comm_all_reduce(c, &n, 1, WH_COMM_U64, WH_COMM_SUM));
    assert_int_equal(n, wh_comm_size(c));
    expect_ok(c, wh_comm_close(c));
}

static void other_version(void **state) {
    (void)state;
    wh_comm *c = NULL;
    wh_comm_failure failure;
    wh_comm_options o;
    int rank = 0, size = 0;
    memset(&o, 0, sizeof o);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &size);
    o.seconds = 30;
    o.version = rank == size - 1 ? WH_VERSION + 1 : 0;
    if (size == 1) {
        return;
    }
    assert_int_equal(wh_comm_open_mpi(&c, &o, &failure), WH_WRONG_BUILD);
    assert_int_equal(wh_comm_agree(c), WH_WRONG_BUILD);
    assert_int_equal(wh_comm_close(c), WH_WRONG_BUILD);
    assert_int_equal(failure.reason, WH_COMM_OTHER_BUILD);
    assert_int_equal(failure.rank, size - 1);
    assert_int_equal(wh_comm_open_mpi(NULL, &o, &failure), WH_BAD_ARGUMENT);
    assert_int_equal(wh_comm_close(NULL), WH_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_to_all),    cmocka_unit_test(all_to_all_of_devices),
        cmocka_unit_test(counts),        cmocka_unit_test(bad_arguments),
        cmocka_unit_test(all_gather),    cmocka_unit_test(all_reduce),
        cmocka_unit_test(add),           cmocka_unit_test(reports),
        cmocka_unit_test(unequal),       cmocka_unit_test(other_version),
        cmocka_unit_test(no_room),       cmocka_unit_test(by_nccl),
        cmocka_unit_test(nothing_given),
    };
    return run_ranks(tests, sizeof tests / sizeof *tests);
}
