/* version.h: the version of these headers. The build reads it, too. Internal: may change. */
#ifndef WH_VERSION_H
#define WH_VERSION_H

#define WH_VERSION_MAJOR 0
#define WH_VERSION_MINOR 2
#define WH_VERSION_PATCH 0

/* As a number that grows, for #if: 0.2.0 is 200, 1.0.0 is 10000. */
#define WH_VERSION (WH_VERSION_MAJOR * 10000 + WH_VERSION_MINOR * 100 + WH_VERSION_PATCH)

#endif
