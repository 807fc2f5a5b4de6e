/* last_error.h: what wh_last_error_text tells the host thread. text: a literal. */
#ifndef WHI_LAST_ERROR_H
#define WHI_LAST_ERROR_H

void whi_note_error(const char *text);

#endif
