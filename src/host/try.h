/* try.h: how the host's calls of graphs, operators and trees hand an error on. */
#ifndef WHI_TRY_H
#define WHI_TRY_H

/* Hands a status that is not WH_OK to the caller. */
#define TRY(call)                  \
    do {                           \
        const wh_status s_ = call; \
        if (s_ != WH_OK) {         \
            return s_;             \
        }                          \
    } while (0)

#endif
