/* structs.c: the report of a check. */
#include "graph_own.h"

void whi_graph_report(wh_report *r, uint64_t tag, uint64_t where) {
    r->errors++;
    r->first_where = r->first_tag == 0 ? where : r->first_where;
    r->first_tag = r->first_tag == 0 ? tag : r->first_tag;
}
