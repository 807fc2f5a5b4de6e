/* last_error.h: what wh_last_error_text tells the host thread. */
#ifndef WHI_LAST_ERROR_H
#define WHI_LAST_ERROR_H

#include "warpheap/types.h"

/* Sets the text, as printf, and returns status. A text that is too long is cut. */
wh_status whi_refuse(wh_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* At the begin of a call that may fail with a text: what an earlier one said is no reason now. */
void whi_forget_error(void);

#endif
