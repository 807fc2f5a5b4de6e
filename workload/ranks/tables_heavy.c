/* tables_heavy.c: keys that a rank would have many rows of, found in samples of all ranks.
 *
 * A rank samples as many rows as make 32 of a key that is just heavy, and tells the others of the
 * keys that have half as many. All ranks add up what all say and take the keys that have half as
 * many in all. So a key that is heavy by far is not missed, unless it is by great chance, and one
 * that is taken without need costs little. They need not be right: what a key's rows are is counted
 * later, and any key may be heavy.
 */
#include "workload/ranks/tables_own.h"

#include <stdlib.h>
#include <string.h>

#include "workload/ranks/comm_own.h"
#include "workload/ranks/tables_count.h"

#define HALF_LIGHT (2 * WHI_LIGHT)

/* Rows of a table that half of a heavy key has, 2 at least, of n rows in all. */
static uint64_t half_heavy(const whi_tables *t, uint64_t n) {
    const uint64_t rows = n / ((uint64_t)HALF_LIGHT * t->ranks);
    return rows > 2 ? rows : 2;
}

static void count_key(whi_tables *t, uint64_t key, uint32_t table, uint32_t log2) {
    const uint64_t mask = ((uint64_t)1 << log2) - 1;
    uint64_t s = whi_slot_of_key(key, log2);
    while (t->counted[s].n[0] + t->counted[s].n[1] != 0 && t->counted[s].key != key) {
        s = (s + 1) & mask;
    }
    t->counted[s].key = key;
    t->counted[s].n[table]++;
}

/* This rank's samples, counted by key. samples[k]: of each table. */
static wh_status take_samples(whi_tables *t, const whi_rows *rows, uint32_t n_tables,
                              uint64_t *samples) {
    const uint64_t slots = WHI_COUNTED_SLOTS(t->samples);
    whi_rows_call call;
    memset(t->counted, 0, slots * sizeof *t->counted);
    for (uint32_t k = 0; k < n_tables; k++) {
        samples[k] = rows[k].n < t->samples ? rows[k].n : t->samples;
        memset(&call, 0, sizeof call);
        call.rows = rows[k];
        call.samples = (uint32_t)samples[k];
        call.seed = (uint32_t)t->calls * 2 + k;
        call.sampled = t->sample_out;
        if (samples[k] == 0) {
            continue;
        }
        wh_status s = t->kernels->sample(t->device, &call);
        s = s == WH_OK ? wh_device_copy_out(t->device, t->message, t->sample_out, samples[k] * 8)
                       : s;
        if (s != WH_OK) {
            return s;
        }
        for (uint64_t i = 0; i < samples[k]; i++) {
            count_key(t, t->message[i], k, whi_log2_of(slots));
        }
    }
    return WH_OK;
}

/* What this rank tells the others; returns words. */
static uint64_t write_message(whi_tables *t, const whi_rows *rows, uint32_t n_tables,
                              const uint64_t *samples) {
    uint64_t *m = t->message, words = WHI_MESSAGE_HEAD, singles = 0;
    const uint64_t slots = WHI_COUNTED_SLOTS(t->samples);
    for (uint64_t i = 0; i < slots; i++) {
        const whi_counted *c = &t->counted[i];
        int is_heavy = 0;
        singles += c->n[0] == 1;
        for (uint32_t k = 0; k < n_tables; k++) {
            is_heavy |= c->n[k] >= half_heavy(t, samples[k]);
        }
        if (!is_heavy) {
            continue;
        }
        m[words++] = c->key;
        for (uint32_t k = 0; k < WHI_TABLES; k++) {
            m[words++] = c->n[k] != 0 ? c->n[k] * rows[k].n / samples[k] : 0;
        }
    }
    for (uint32_t k = 0; k < WHI_TABLES; k++) {
        m[k] = k < n_tables ? rows[k].n : 0;
    }
    m[WHI_TABLES] = samples[0];
    m[WHI_TABLES + 1] = singles;
    m[WHI_TABLES + 2] = (words - WHI_MESSAGE_HEAD) / 3;
    return words;
}

/* --- what all have said -------------------------------------------------------------------------
 */

static int by_key(const void *a, const void *b) {
    const uint64_t x = ((const whi_heavy *)a)->key, y = ((const whi_heavy *)b)->key;
    return x < y ? -1 : x > y;
}

/* Those with most rows first, in the table where that is more of a rank's part. */
static int by_share(const void *a, const void *b) {
    const whi_heavy *x = a, *y = b;
    const uint64_t most_x = x->rows[0] > x->rows[1] ? x->rows[0] : x->rows[1];
    const uint64_t most_y = y->rows[0] > y->rows[1] ? y->rows[0] : y->rows[1];
    if (most_x == most_y) {
        return by_key(a, b);
    }
    return most_x < most_y ? 1 : -1;
}

/* The keys of all ranks' messages, with what they say. */
static uint64_t read_messages(whi_tables *t, whi_heavy *keys) {
    uint64_t n = 0;
    for (int k = 0; k < (int)WHI_TABLES; k++) {
        t->all_brought[k] = 0;
    }
    t->sampled = t->singles = t->sampled_squared = 0;
    for (uint32_t r = 0; r < t->ranks; r++) {
        const uint64_t *m =
            (const uint64_t *)(const void *)(t->gathered.data + t->gathered.offset[r]);
        for (uint32_t k = 0; k < WHI_TABLES; k++) {
            t->brought[k][r] = m[k];
            t->all_brought[k] += m[k];
        }
        t->sampled += m[WHI_TABLES];
        t->sampled_squared += m[WHI_TABLES] * m[WHI_TABLES];
        t->singles += m[WHI_TABLES + 1];
        for (uint64_t i = 0; i < m[WHI_TABLES + 2]; i++) {
            const uint64_t *key = m + WHI_MESSAGE_HEAD + 3 * i;
            whi_heavy *h = &keys[n++];
            memset(h, 0, sizeof *h);
            h->key = key[0];
            h->rows[0] = key[1];
            h->rows[1] = key[2];
        }
    }
    return n;
}

/* Keys of several ranks become one, and those that are light in all are left out; returns how many
 * stay. */
static uint64_t add_up(const whi_tables *t, whi_heavy *keys, uint64_t n) {
    uint64_t left = 0, next = 0;
    qsort(keys, n, sizeof *keys, by_key);
    for (uint64_t i = 0; i < n; i = next) {
        whi_heavy sum = keys[i];
        int is_heavy = 0;
        for (next = i + 1; next < n && keys[next].key == sum.key; next++) {
            sum.rows[0] += keys[next].rows[0];
            sum.rows[1] += keys[next].rows[1];
        }
        for (uint32_t k = 0; k < WHI_TABLES; k++) {
            is_heavy |= sum.rows[k] >= half_heavy(t, t->all_brought[k]);
        }
        if (is_heavy) {
            keys[left++] = sum;
        }
    }
    return left;
}

static wh_status agree_on_keys(whi_tables *t) {
    uint64_t n = t->gathered.offset[t->ranks] / (3 * sizeof(uint64_t)) + 1;
    whi_heavy *keys = malloc(n * sizeof *keys);
    t->n_heavy = 0;
    if (keys == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    n = add_up(t, keys, read_messages(t, keys));
    qsort(keys, n, sizeof *keys, by_share);
    t->n_heavy = n < WHI_MOST_HEAVY ? (uint32_t)n : WHI_MOST_HEAVY;
    memcpy(t->heavy, keys, t->n_heavy * sizeof *keys);
    free(keys);
    return WH_OK;
}

/* The keys' slots, to the device. */
static wh_status lay_slots(whi_tables *t) {
    const uint32_t log2 = whi_log2_of(4 * (uint64_t)t->n_heavy), slots = 1u << log2;
    uint64_t *key = calloc(slots, sizeof *key);
    uint32_t *number = malloc(slots * sizeof *number);
    wh_status s = key != NULL && number != NULL ? WH_OK : WH_OUT_OF_MEMORY;
    if (s == WH_OK) {
        memset(number, 0xff, slots * sizeof *number);
        for (uint32_t i = 0; i < t->n_heavy; i++) {
            uint32_t at = whi_slot_of_key(t->heavy[i].key, log2);
            while (number[at] != WHI_NO_SLOT) {
                at = (at + 1) & (slots - 1);
            }
            key[at] = t->heavy[i].key;
            number[at] = i;
        }
        s = wh_device_copy_in(t->device, t->heavy_key, key, slots * sizeof *key);
    }
    if (s == WH_OK) {
        s = wh_device_copy_in(t->device, t->heavy_number, number, slots * sizeof *number);
    }
    free(key);
    free(number);
    return s;
}

wh_status whi_tables_find(whi_tables *t, const whi_rows *rows, uint32_t n_tables) {
    const double begin = whi_comm_now();
    uint64_t samples[WHI_TABLES] = {0}, words = 0;
    whi_tables_clear(t);
    const wh_status taken = take_samples(t, rows, n_tables, samples);
    wh_comm_report(t->comm, taken, "a sample of the rows could not be taken");
    words = taken == WH_OK ? write_message(t, rows, n_tables, samples) : 0;
    wh_status s = wh_comm_all_gather(t->comm, t->message, words * 8, &t->gathered);
    if (s == WH_OK) {
        const wh_status own = agree_on_keys(t);
        wh_comm_report(t->comm, own, "no host memory for heavy keys");
        if (own == WH_OK && t->n_heavy != 0) {
            wh_comm_report(t->comm, lay_slots(t), "heavy keys could not be copied to the device");
        }
    }
    t->work.sample = whi_comm_now() - begin;
    return s;
}
