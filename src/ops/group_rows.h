/* group_rows.h: rows to be grouped, where they are and what they say, for one width of keys and one
 * of values. Included by group_kernels.c: KEY and VALUE are unsigned types of these widths,
 * OF(name) a name for both.
 *
 * A row says what one row of the table says, or what many of one key do. least and most are ranks:
 * numbers in the order of the values. NaN is one value and ranks above all others; -0.0 is next
 * below 0.0.
 */

typedef struct OF(item) {
    KEY key;
    uint32_t count; /* rows: there are never more than 32 bits count */
    uint64_t sum;   /* of int: of 64 bits; of float and double: the bits of a double */
    VALUE least, most;
} OF(item);

#define SIGN ((VALUE)1 << (8 * sizeof(VALUE) - 1))
#define VALUE_INFINITE (sizeof(VALUE) == 4 ? (VALUE)0x7f800000u : (VALUE)0x7ff0000000000000u)
#define VALUE_NAN (sizeof(VALUE) == 4 ? (VALUE)0x7fc00000u : (VALUE)0x7ff8000000000000u)

WH_FN VALUE OF(rank)(const whi_group_needs *w, VALUE v) {
    if (!w->is_float) {
        return v ^ SIGN;
    }
    v = WH_PLANT(rows_nan, (v & ~SIGN) > VALUE_INFINITE, 0) ? VALUE_NAN : v;
    return (v & SIGN) != 0 ? WH_PLANT(rows_negative, (VALUE)~v, v ^ SIGN) : v | SIGN;
}

WH_FN VALUE OF(value_of_rank)(const whi_group *g, VALUE r) {
    if (!g->needs.is_float) {
        return r ^ SIGN;
    }
    return (r & SIGN) != 0 ? r ^ SIGN : (VALUE)~r;
}

WH_FN uint64_t OF(summand)(const whi_group_needs *w, VALUE v) {
    if (sizeof(VALUE) == 8) {
        return v;
    }
    return w->is_float ? bits_of_float((uint32_t)v)
                       : WH_PLANT(rows_sign, (uint64_t)(int64_t)(int32_t)(uint32_t)v, (uint64_t)v);
}

WH_FN OF(item) OF(item_of)(const whi_group_needs *w, KEY key, VALUE v) {
    OF(item) m;
    m.key = key;
    m.count = 1;
    m.sum = w->sum ? OF(summand)(w, v) : 0;
    m.least = m.most = w->least | w->most ? OF(rank)(w, v) : 0;
    return m;
}

WH_FN uint32_t OF(hash)(KEY key, uint32_t level) {
    const uint32_t other = wh_spread32(level); /* 0 of level 0 */
    return sizeof(KEY) == 4 ? wh_mix32((uint32_t)key + other)
                            : wh_mix64((uint64_t)key + ((uint64_t)other << 32 | other));
}

WH_FN uint32_t OF(part_of)(KEY key, uint32_t level, uint32_t log2) {
    return wh_high_u32((uint64_t)OF(hash)(key, level) << log2);
}

/* --- rows of tiles -----------------------------------------------------------------------------
 */

#define PAGE_COLUMN(type, page, at) ((type *)(void *)((page) + (at)))

WH_FN KEY OF(key_of)(const whi_group_shape *s, const group_tile *t, uint32_t i) {
    if (t->source == FROM_TABLE) {
        return ((const KEY *)t->key)[i];
    }
    if (t->source == FROM_SLOTS) {
        return SHARED(KEY, keys)[i];
    }
    const whi_group_layout *l = t->layout;
    unsigned char *page = page_of_row(s, l, i);
    return PAGE_COLUMN(const KEY, page, l->key)[in_page(l, i)];
}

/* There are values. */
WH_FN VALUE OF(value_of)(const whi_group_shape *s, const group_tile *t, uint32_t i) {
    if (t->source == FROM_TABLE) {
        return ((const VALUE *)t->value)[i];
    }
    const whi_group_layout *l = t->layout;
    return PAGE_COLUMN(const VALUE, page_of_row(s, l, i), l->value)[in_page(l, i)];
}

WH_FN OF(item) OF(item_in_page)(const whi_group *g, unsigned char *page, uint32_t at,
                                const whi_group_needs *w) {
    const whi_group_layout *l = &g->layout[GROUP_PARTIAL];
    OF(item) m;
    memset(&m, 0, sizeof m);
    m.key = PAGE_COLUMN(const KEY, page, l->key)[at];
    if (w->count) {
        m.count = WH_PLANT(rows_count, PAGE_COLUMN(const uint32_t, page, l->count)[at], 1u);
    }
    if (w->sum) {
        m.sum = PAGE_COLUMN(const uint64_t, page, l->sum)[at];
    }
    if (w->least) {
        m.least = PAGE_COLUMN(const VALUE, page, l->least)[at];
    }
    if (w->most) {
        m.most = PAGE_COLUMN(const VALUE, page, l->most)[at];
    }
    return m;
}

WH_FN void OF(item_to_page)(const whi_group *g, unsigned char *page, uint32_t at, OF(item) m) {
    const whi_group_layout *l = &g->layout[GROUP_PARTIAL];
    PAGE_COLUMN(KEY, page, l->key)[at] = m.key;
    if (g->needs.count) {
        PAGE_COLUMN(uint32_t, page, l->count)[at] = m.count;
    }
    if (g->needs.sum) {
        PAGE_COLUMN(uint64_t, page, l->sum)[at] = m.sum;
    }
    if (g->needs.least) {
        PAGE_COLUMN(VALUE, page, l->least)[at] = m.least;
    }
    if (g->needs.most) {
        PAGE_COLUMN(VALUE, page, l->most)[at] = m.most;
    }
}

/* A row of the result, which is item m, to place i of its columns; NULL: no such column. */
WH_FN void OF(write_item)(const whi_group *g, void *const *column, uint64_t i, OF(item) m) {
    ((KEY *)column[GROUP_KEY])[i] = m.key;
    if (column[GROUP_COUNT] != NULL) {
        ((uint64_t *)column[GROUP_COUNT])[i] = m.count;
    }
    if (column[GROUP_SUM] != NULL) {
        ((uint64_t *)column[GROUP_SUM])[i] = m.sum;
    }
    if (column[GROUP_MIN] != NULL) {
        ((VALUE *)column[GROUP_MIN])[i] = OF(value_of_rank)(g, m.least);
    }
    if (column[GROUP_MAX] != NULL) {
        ((VALUE *)column[GROUP_MAX])[i] = OF(value_of_rank)(g, m.most);
    }
    if (column[GROUP_AVG] != NULL) {
        const double whole = WH_PLANT(rows_avg, (double)(int64_t)m.sum, (double)m.sum);
        const double sum = g->needs.is_float ? double_of(m.sum) : whole;
        ((double *)column[GROUP_AVG])[i] = sum / m.count;
    }
}

/* Row i of a tile of the table or of pages, as it is there. */
typedef struct OF(row) {
    KEY key;
    VALUE value;
    int is_there;
} OF(row);

/* If there is one; the rest is 0 if the tile's rows are not as the table has them. Values if w
 * needs them. */
WH_FN OF(row) OF(row_at)(const whi_group_shape *s, const group_tile *t, uint32_t i,
                         const whi_group_needs *w) {
    OF(row) r;
    r.key = 0;
    r.value = 0;
    r.is_there = has_row(s, t, i);
    if (t->kind == GROUP_RAW && r.is_there) {
        r.key = OF(key_of)(s, t, i);
        r.value = w->sum | w->least | w->most ? OF(value_of)(s, t, i) : 0;
    }
    return r;
}

/* What it says; r: what row_at has found. */
WH_FN OF(item) OF(item_at)(const whi_group *g, const whi_group_shape *s, const group_tile *t,
                           uint32_t i, OF(row) r, const whi_group_needs *w) {
    if (t->kind == GROUP_PARTIAL) {
        const whi_group_layout *l = &g->layout[GROUP_PARTIAL];
        return OF(item_in_page)(g, page_of_row(s, l, i), in_page(l, i), w);
    }
    return OF(item_of)(w, r.key, r.value);
}
