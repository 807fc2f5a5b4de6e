/* structs.c: structures that callers fill, and the report of a check. */
#include <string.h>

#include "graph_own.h"
#include "host/last_error.h"

wh_status whi_take_struct(void *own, size_t own_bytes, const void *theirs, size_t bytes) {
    uint64_t says;
    memcpy(&says, theirs, sizeof says);
    const uint64_t n = says != 0 ? says : bytes;
    if (n != own_bytes) {
        return whi_refuse(WH_WRONG_BUILD, "a structure of %llu bytes, where this library has %zu",
                          (unsigned long long)n, own_bytes);
    }
    memcpy(own, theirs, own_bytes);
    return WH_OK;
}

void whi_graph_report(wh_report *r, uint64_t tag, uint64_t where) {
    r->errors++;
    r->first_where = r->first_tag == 0 ? where : r->first_where;
    r->first_tag = r->first_tag == 0 ? tag : r->first_tag;
}
