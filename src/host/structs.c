/* structs.c: structures that callers fill. */
#include "structs.h"

#include <string.h>

#include "last_error.h"

wh_status whi_take_struct(void *own, size_t own_bytes, const void *theirs, size_t bytes) {
    uint64_t says;
    memcpy(&says, theirs, sizeof says);
    const uint64_t n = says != 0 ? says : bytes;
    if (n < 2 * sizeof says || n > own_bytes || n % sizeof says != 0) {
        return whi_refuse(
            WH_WRONG_BUILD,
            "struct_bytes is %llu, and this library knows %zu: it was built from other "
            "headers than the calling code, or the field is not set",
            (unsigned long long)n, own_bytes);
    }
    memset(own, 0, own_bytes);
    memcpy(own, theirs, (size_t)n);
    return WH_OK;
}
