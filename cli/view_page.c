/* view_page.c: the page of `warpheap view`: one file of HTML, with its style and its picture (SVG)
 * inside, and no script. What comes from the snapshot goes through put_name: it is escaped. Lists
 * are cut, and say what they leave out: so the page of a heap of any size is about 300 KB. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/view_map.h"

#define MOST_PLACES 40u
#define MOST_CLASSES 140u
#define CELL 14u         /* of the picture, with the gap */
#define LEAST_FRESH 0.25 /* of a cell that has new blocks: so that they are seen */

static const char style[] =
    ":root{color-scheme:light dark;--paper:#fff;--ink:#1c2430;--soft:#5c6675;--line:#d7dce3;"
    "--live:#2b62c9;--fresh:#d0312d;--kept:#d99a1c;--slack:#a9bfe6;--free:#eef1f5;"
    "--absent:#c3c8d0}\n"
    "@media(prefers-color-scheme:dark){:root{--paper:#14181f;--ink:#e6eaf0;--soft:#9aa5b4;"
    "--line:#333b47;--live:#6c9bff;--fresh:#ff6b61;--kept:#f0b94a;--slack:#3c5586;"
    "--free:#232933;--absent:#0b0e12}}\n"
    "body{background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif;"
    "max-width:60rem;margin:1.5rem auto;padding:0 1rem}\n"
    "h1{font-size:1.5rem;margin:0}h2{font-size:1.15rem;margin:2rem 0 .5rem}\n"
    "p{margin:.3rem 0}.soft{color:var(--soft)}code{font-size:.92em;overflow-wrap:anywhere}\n"
    ".tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(10rem,1fr));gap:.75rem;"
    "margin:1rem 0}.tiles div{border:1px solid var(--line);border-radius:6px;padding:.5rem .75rem}"
    ".tiles b{display:block;font-size:1.25rem}.tiles span{color:var(--soft);font-size:.9rem}\n"
    ".wide{overflow-x:auto}table{border-collapse:collapse;width:100%}"
    "th,td{text-align:right;padding:.2rem .6rem;border-bottom:1px solid var(--line);"
    "white-space:nowrap;font-variant-numeric:tabular-nums}th{color:var(--soft);font-weight:600}"
    ".name{text-align:left;white-space:normal;min-width:12rem}\n"
    ".bar{display:inline-block;vertical-align:middle;width:8rem;height:.7rem;"
    "background:var(--free);border-radius:2px;overflow:hidden}"
    ".bar i{display:block;float:left;height:100%}\n"
    ".live{fill:var(--live);background:var(--live)}.fresh{fill:var(--fresh);"
    "background:var(--fresh)}.kept{fill:var(--kept);background:var(--kept)}"
    ".slack{fill:var(--slack);background:var(--slack)}.free{fill:var(--free);"
    "background:var(--free)}.absent{fill:var(--absent);background:var(--absent)}\n"
    "svg{width:100%;height:auto;display:block;border:1px solid var(--line);border-radius:6px}"
    ".legend{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;list-style:none;padding:0;"
    "margin:.5rem 0}.legend i{display:inline-block;width:.8rem;height:.8rem;border-radius:2px;"
    "margin-right:.4rem;border:1px solid var(--line);vertical-align:-1px}\n";

typedef struct page {
    FILE *file;
    const snap *s, *since; /* since: NULL: it is compared with nothing */
    const map *m;
} page;

static void put(page *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(page *p, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vfprintf(p->file, format, args);
    va_end(args);
}

/* A text of the snapshot or of the command line. */
static void put_name(page *p, const char *text) {
    for (; *text != '\0'; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c < ' ' || c == 0x7f || strchr("<>&\"'", c) != NULL) {
            put(p, "&#%u;", c < ' ' || c == 0x7f ? 0xfffdu : c);
        } else {
            (void)putc(c, p->file);
        }
    }
}

static void put_place(page *p, uint32_t site) {
    char place[SNAP_PLACE];
    put(p, "<code>");
    put_name(p, snap_place(p->s, site, place));
    put(p, "</code>");
}

static void put_bytes(page *p, uint64_t bytes) {
    char text[32];
    put(p, "<td title=\"%" PRIu64 " bytes\">%s</td>", bytes, cli_bytes_text(bytes, text));
}

static double share(uint64_t part, uint64_t of) {
    return of != 0 ? 100.0 * (double)part / (double)of : 0;
}

static void put_tile(page *p, const char *what, const char *value, const char *more) {
    put(p, "<div><span>%s</span><b>%s</b><span>%s</span></div>\n", what, value, more);
}

/* --- head ------------------------------------------------------------------------------------- */

static void put_head(page *p) {
    const snap *s = p->s;
    const time_t when = (time_t)(s->time_ns / 1000000000u);
    struct tm parts;
    char day[32] = "", text[3][32];
    if (gmtime_r(&when, &parts) != NULL) {
        (void)strftime(day, sizeof day, "%Y-%m-%d %H:%M:%S UTC", &parts);
    }
    put(p, "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
           "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
           "<link rel=\"icon\" href=\"data:,\">\n<title>Heap: ");
    put_name(p, s->path);
    put(p, "</title>\n<style>\n%s</style>\n<h1>Heap: ", style);
    put_name(p, s->path);
    put(p, "</h1>\n<p class=\"soft\">");
    put_name(p, s->allocator);
    put(p, " on ");
    put_name(p, s->device);
    put(p, ", %s, %s of it for blocks, in chunks of %s. Saved at %s by process %" PRIu64 ".</p>\n",
        cli_bytes_text(s->heap_bytes, text[0]),
        cli_bytes_text(s->chunks * s->chunk_bytes - p->m->all.absent, text[1]),
        cli_bytes_text(s->chunk_bytes, text[2]), day, s->pid);
    if (p->since != NULL) {
        put(p, "<p>Compared with <code>");
        put_name(p, p->since->path);
        put(p, "</code>, saved %.3f s before.</p>\n",
            (double)(s->time_ns - p->since->time_ns) * 1e-9);
    }
    if (!s->checked) {
        put(p,
            "<p id=\"plain\">The heap is not checked, so its blocks have no place in the "
            "program: create it with the option <code>tessera.checked</code> to see who owns "
            "what%s.</p>\n",
            p->since != NULL ? "; and a block that came to the place of an older one of its size "
                               "does not count as new"
                             : "");
    }
}

static void put_tiles(page *p) {
    const map *m = p->m;
    const snap *s = p->s;
    char value[64], more[96], text[32];
    const uint64_t room = m->all.bytes - m->all.absent;
    put(p, "<div class=\"tiles\" id=\"tiles\">\n");
    (void)snprintf(more, sizeof more, "%" PRIu64 " blocks, which take %.1f %% of the heap",
                   s->n_blocks, share(m->all.live + m->all.fresh, room));
    put_tile(p, "Live", cli_bytes_text(s->used_bytes, text), more);
    if (p->since != NULL) {
        uint64_t blocks = 0, bytes = 0;
        for (uint64_t i = 0; i < s->n_blocks; i++) {
            blocks += s->blocks[i].is_new;
            bytes += s->blocks[i].is_new ? s->blocks[i].bytes : 0;
        }
        (void)snprintf(more, sizeof more, "%" PRIu64 " blocks", blocks);
        put_tile(p, "New since then", cli_bytes_text(bytes, text), more);
    }
    (void)snprintf(more, sizeof more, "in %" PRIu64 " runs, the largest %.1f %% of it", m->n_runs,
                   share(m->largest_run, m->free_chunks));
    put_tile(p, "Free", cli_bytes_text(m->all.free, text), more);
    (void)snprintf(value, sizeof value, "%.1f %%",
                   m->free_chunks != 0 ? 100 - share(m->largest_run, m->free_chunks) : 0);
    put_tile(p, "Fragmentation", value, "free memory outside the largest run");
    (void)snprintf(more, sizeof more, "%" PRIu64 " bad frees", s->bad_frees);
    (void)snprintf(value, sizeof value, "%" PRIu64, s->failed);
    put_tile(p, "Failed mallocs", value, more);
    put(p, "</div>\n");
}

/* --- picture ---------------------------------------------------------------------------------- */

/* A part of a cell, from the bottom up; *at: how much is drawn. */
static void put_part(page *p, const map_cell *c, uint64_t bytes, const char *name, double *at) {
    double height = (double)bytes / (double)c->bytes;
    height = strcmp(name, "fresh") == 0 && height < LEAST_FRESH ? LEAST_FRESH : height;
    const double top = *at + height < 1 ? *at + height : 1;
    if (top > *at && bytes != 0) {
        put(p, "<rect class=\"%s\" y=\"%.2f\" width=\"12\" height=\"%.2f\"/>", name, 12 * (1 - top),
            12 * (top - *at));
    }
    *at = top;
}

static void put_cell(page *p, uint64_t k) {
    const map_cell *c = &p->m->cells[k];
    const uint64_t first = k * p->m->chunks_per_cell;
    char text[4][32];
    double at = 0;
    put(p,
        "<g transform=\"translate(%" PRIu64 " %" PRIu64 ")\"><title>chunks %" PRIu64 " to %" PRIu64
        ": %s\nlive %s in %" PRIu64 " blocks\nfree slots %s\nfree chunks %s",
        k % MAP_COLUMNS * CELL + 2, k / MAP_COLUMNS * CELL + 2, first,
        first + c->bytes / p->s->chunk_bytes - 1, cli_bytes_text(c->bytes, text[0]),
        cli_bytes_text(c->live + c->fresh, text[1]), c->blocks,
        cli_bytes_text(map_slack(c), text[2]), cli_bytes_text(c->free, text[3]));
    if (c->fresh != 0) {
        put(p, "\nnew %s", cli_bytes_text(c->fresh, text[0]));
    }
    if (c->kept != 0) {
        put(p, "\nin quarantine %s", cli_bytes_text(c->kept, text[0]));
    }
    if (c->slot_bytes != 0) {
        put(p, "\nslots of %" PRIu64 " B", c->slot_bytes);
    }
    put(p, "</title><rect class=\"free\" width=\"12\" height=\"12\"/>");
    put_part(p, c, c->fresh, "fresh", &at);
    put_part(p, c, c->live, "live", &at);
    put_part(p, c, c->kept, "kept", &at);
    put_part(p, c, map_slack(c), "slack", &at);
    put_part(p, c, c->absent, "absent", &at);
    put(p, "</g>\n");
}

static void put_map(page *p) {
    const map *m = p->m;
    const uint64_t rows = (m->n_cells + MAP_COLUMNS - 1) / MAP_COLUMNS;
    const struct {
        const char *name, *text;
        uint64_t bytes;
    } parts[] = {
        {"fresh", "new blocks", m->all.fresh},
        {"live", p->since != NULL ? "older blocks" : "live blocks", m->all.live},
        {"kept", "in quarantine", m->all.kept},
        {"slack", "free slots of slabs", map_slack(&m->all)},
        {"free", "free chunks", m->all.free},
        {"absent", "not mapped", m->all.absent},
    };
    char text[32];
    put(p,
        "<h2>Where memory is</h2>\n<p class=\"soft\">A cell is %s, from the first address on, "
        "line by line; what it holds fills it from below%s.</p>\n<ul class=\"legend\">\n",
        cli_bytes_text(m->chunks_per_cell * p->s->chunk_bytes, text),
        p->s->checked ? ", blocks with the zones around them" : "");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (parts[i].bytes != 0) {
            put(p, "<li><i class=\"%s\"></i>%s: %s</li>\n", parts[i].name, parts[i].text,
                cli_bytes_text(parts[i].bytes, text));
        }
    }
    put(p,
        "</ul>\n<svg id=\"map\" role=\"img\" aria-label=\"Map of the heap\" viewBox=\"0 0 %u "
        "%" PRIu64 "\">\n",
        MAP_COLUMNS * CELL + 2, rows * CELL + 2);
    for (uint64_t k = 0; k < m->n_cells; k++) {
        put_cell(p, k);
    }
    put(p, "</svg>\n");
}

/* --- tables ----------------------------------------------------------------------------------- */

static void put_bar(page *p, uint64_t part, const char *name, uint64_t more, const char *more_name,
                    uint64_t of) {
    put(p,
        "<td><span class=\"bar\"><i class=\"%s\" style=\"width:%.1f%%\"></i>"
        "<i class=\"%s\" style=\"width:%.1f%%\"></i></span></td>",
        name, share(part, of), more_name, share(more, of));
}

static void put_sizes(page *p, const snap_group *g) {
    if (g->n_sizes == 1) {
        put(p, "<td>%" PRIu64 "</td>", g->least);
    } else {
        put(p, "<td title=\"%" PRIu64 " sizes\">%" PRIu64 " – %" PRIu64 "</td>", g->n_sizes,
            g->least, g->most);
    }
}

static void put_group(page *p, const snap_group *g, uint64_t most, int only_new) {
    put(p, "<tr><td class=\"name\">");
    put_place(p, g->site);
    put(p, "</td>");
    put_bytes(p, g->bytes);
    put_bar(p, only_new ? g->bytes : g->new_bytes, "fresh", only_new ? 0 : g->bytes - g->new_bytes,
            "live", most);
    put(p, "<td>%" PRIu64 "</td>", g->blocks);
    put_sizes(p, g);
    if (g->first->thread != SNAP_UNKNOWN) {
        put(p, "<td>%" PRIu64 " / %" PRIu64 "</td>", g->first->block, g->first->thread);
    } else {
        put(p, "<td>–</td>");
    }
    put(p, "</tr>\n");
}

/* 0: there is no memory. */
static int put_groups(page *p, const char *id, const char *title, unsigned how) {
    uint64_t n = 0, rest_blocks = 0, rest_bytes = 0;
    snap_group *groups = snap_groups(p->s, how, &n);
    char text[32];
    if (groups == NULL) {
        return 0;
    }
    put(p, "<h2>%s</h2>\n", title);
    if (n == 0) {
        put(p, "<p id=\"%s\">No blocks.</p>\n", id);
    } else {
        put(p,
            "<div class=\"wide\"><table id=\"%s\">\n<tr><th class=\"name\">allocated at</th>"
            "<th>bytes</th><th></th><th>blocks</th><th>size</th>"
            "<th title=\"of the block that lies lowest\">block / thread</th></tr>\n",
            id);
    }
    for (uint64_t i = 0; i < n; i++) {
        if (i < MOST_PLACES) {
            put_group(p, &groups[i], groups[0].bytes, (how & SNAP_NEW) != 0);
        } else {
            rest_blocks += groups[i].blocks;
            rest_bytes += groups[i].bytes;
        }
    }
    put(p, "%s", n != 0 ? "</table></div>\n" : "");
    if (n > MOST_PLACES) {
        put(p, "<p class=\"soft rest\">%" PRIu64 " more rows: %" PRIu64 " blocks, %s.</p>\n",
            n - MOST_PLACES, rest_blocks, cli_bytes_text(rest_bytes, text));
    }
    free(groups);
    return 1;
}

static void put_classes(page *p) {
    const map *m = p->m;
    put(p, "<h2>Size classes</h2>\n<p class=\"soft\">A slab is a few chunks cut into slots of one "
           "size. Held: slots that malloc has ready.</p>\n<div class=\"wide\"><table "
           "id=\"classes\">\n<tr><th>slot</th><th>slabs</th><th>memory</th><th>slots</th>"
           "<th>live</th><th>quarantine</th><th>held</th><th>fill</th><th></th></tr>\n");
    for (uint64_t i = 0; i < m->n_classes && i < MOST_CLASSES; i++) {
        const map_class *c = &m->classes[i];
        if (c->slot_bytes == 0) {
            put(p, "<tr><td>large</td>");
        } else {
            put(p, "<tr><td>%" PRIu64 " B</td>", c->slot_bytes);
        }
        put(p, "<td>%" PRIu64 "</td>", c->slabs);
        put_bytes(p, c->chunks * p->s->chunk_bytes);
        put(p,
            "<td>%" PRIu64 "</td><td>%" PRIu64 "</td><td>%" PRIu64 "</td><td>%" PRIu64
            "</td><td>%.0f %%</td>",
            c->slots, c->live, c->kept, c->ready, share(c->live, c->slots));
        put_bar(p, c->live, "live", c->kept, "kept", c->slots);
        put(p, "</tr>\n");
    }
    put(p, "</table></div>\n");
    if (m->n_classes > MOST_CLASSES) {
        put(p, "<p class=\"soft rest\">%" PRIu64 " more classes.</p>\n",
            m->n_classes - MOST_CLASSES);
    }
}

static void put_runs(page *p) {
    const map *m = p->m;
    char text[32];
    put(p,
        "<h2>Free runs</h2>\n<p class=\"soft\">Free chunks in a row: a block of more than a "
        "chunk needs one that is as long. The longest has %s.</p>\n<div class=\"wide\"><table "
        "id=\"runs\">\n<tr><th>from</th><th>runs</th><th>memory</th><th></th></tr>\n",
        cli_bytes_text(m->largest_run * p->s->chunk_bytes, text));
    for (uint32_t i = 0; i < MAP_RUNS; i++) {
        if (m->run_counts[i] != 0) {
            put(p, "<tr>");
            put_bytes(p, p->s->chunk_bytes << i);
            put(p, "<td>%" PRIu64 "</td>", m->run_counts[i]);
            put_bytes(p, m->run_chunks[i] * p->s->chunk_bytes);
            put_bar(p, m->run_chunks[i], "slack", 0, "free", m->free_chunks);
            put(p, "</tr>\n");
        }
    }
    put(p, "</table></div>\n");
}

static void put_largest(page *p) {
    const map *m = p->m;
    put(p, "<h2>Largest blocks</h2>\n<div class=\"wide\"><table id=\"largest\">\n<tr>"
           "<th>address</th><th>bytes</th><th>takes</th><th>block / thread</th>"
           "<th class=\"name\">allocated at</th></tr>\n");
    for (uint64_t i = 0; i < m->n_largest; i++) {
        const snap_block *b = m->largest[i];
        put(p, "<tr><td><code>0x%" PRIx64 "</code></td>", p->s->base + b->offset);
        put_bytes(p, b->bytes);
        put_bytes(p, b->taken);
        if (b->thread != SNAP_UNKNOWN) {
            put(p, "<td>%" PRIu64 " / %" PRIu64 "</td>", b->block, b->thread);
        } else {
            put(p, "<td>–</td>");
        }
        put(p, "<td class=\"name\">");
        put_place(p, b->site);
        put(p, "</td></tr>\n");
    }
    put(p, "</table></div>\n");
    if (p->s->n_blocks > m->n_largest) {
        put(p, "<p class=\"soft rest\">%" PRIu64 " more blocks are not listed.</p>\n",
            p->s->n_blocks - m->n_largest);
    }
}

static int put_page(page *p) {
    put_head(p);
    put_tiles(p);
    int ok = p->since == NULL ||
             put_groups(p, "new", "New and still live, by place and size", SNAP_BY_SIZE | SNAP_NEW);
    put_map(p);
    ok = ok && put_groups(p, "places", "Who owns what", 0);
    put_classes(p);
    put_runs(p);
    put_largest(p);
    put(p, "</html>\n");
    return ok;
}

int snap_page(const snap *s, const snap *since, const char *path) {
    page p;
    int status = 0;
    map *m = malloc(sizeof *m);
    if (m == NULL || !map_make(m, s)) {
        free(m);
        return cli_complain("%s: the host has not enough memory for its picture", s->path);
    }
    p.s = s;
    p.since = since;
    p.m = m;
    p.file = fopen(path, "wb");
    if (p.file == NULL) {
        status = cli_complain("%s: cannot be written: %s", path, strerror(errno));
    } else {
        status = put_page(&p) ? 0 : CLI_USAGE;
        const int bad = ferror(p.file);
        if ((fclose(p.file) != 0 || bad != 0) && status == 0) {
            status = cli_complain("%s: cannot be written: %s", path, strerror(errno));
        }
    }
    map_drop(m);
    free(m);
    return status;
}
