/* rows.h: rows of tables, and of parts' pages, for one width of keys. Included by join_kernels.c
 * twice: KEY is the type of keys, OF(name) a name for that width. */

/* A key and what goes with it: 4 bytes of the table's, or the row's number. */
typedef struct OF(row) {
    KEY key;
    uint32_t value;
} OF(row);

WH_FN KEY OF(key_at)(const whi_side *s, uint32_t i) {
    return ((const KEY *)s->key)[i];
}

WH_FN OF(row) OF(row_of_table)(const whi_side *s, uint32_t i) {
    OF(row) r;
    r.key = OF(key_at)(s, i);
    r.value = s->kind == WH_VALUE_4 ? ((const uint32_t *)s->value)[i] : i;
    return r;
}

/* Row i of a page of 1 << log2 rows: of 8 bytes, or keys and then values. */
WH_FN OF(row) OF(row_of_page)(const unsigned char *page, uint32_t log2, uint32_t i) {
    OF(row) r;
    if (sizeof(KEY) == 4) {
        const uint64_t both = ((const uint64_t *)(const void *)page)[i];
        r.key = wh_low_u32(both);
        r.value = wh_high_u32(both);
    } else {
        r.key = ((const KEY *)(const void *)page)[i];
        r.value = ((const uint32_t *)(const void *)(page + (sizeof(KEY) << log2)))[i];
    }
    return r;
}

WH_FN void OF(row_to_page)(unsigned char *page, uint32_t log2, uint32_t i, OF(row) r) {
    if (sizeof(KEY) == 4) {
        ((uint64_t *)(void *)page)[i] = (uint64_t)r.value << 32 | (uint32_t)r.key;
    } else {
        ((KEY *)(void *)page)[i] = r.key;
        ((uint32_t *)(void *)(page + (sizeof(KEY) << log2)))[i] = r.value;
    }
}

/* Bits of a hash: the first parts_log2 say which part, the next heads_log2 which chain. */
WH_FN uint32_t OF(hash)(KEY key) {
    return sizeof(KEY) == 4 ? wh_mix32((uint32_t)key) : wh_mix64(key);
}

WH_FN uint32_t OF(chain_of)(const whi_join *j, KEY key) {
    return wh_high_u32((uint64_t)(OF(hash)(key) << j->parts_log2) << j->heads_log2);
}
