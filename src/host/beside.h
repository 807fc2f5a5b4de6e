/* beside.h: a file that appears whole: it is written under another name in the same folder, and
 * renamed at last. */
#ifndef WHI_BESIDE_H
#define WHI_BESIDE_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "last_error.h"

/* A new file beside `path`, of the rights that a new file has here, or those of the old one; *name
 * is the caller's to free. What is no plain file, or leads to none, would be gone after a rename: a
 * device, a pipe, /dev/stdout. *fd is -1 on failure. */
static inline wh_status whi_open_beside(const char *path, char **name, int *fd) {
    const size_t room = strlen(path) + 40;
    struct stat old;
    const int is_there = stat(path, &old) == 0;
    *fd = -1;
    if (is_there && !S_ISREG(old.st_mode)) {
        return whi_refuse(WH_IO_ERROR,
                          "%.200s: cannot be replaced: it is no plain file (a folder, a device, a "
                          "pipe); give another path",
                          path);
    }
    *name = malloc(room);
    if (*name == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    for (unsigned k = 0; *fd < 0 && k < 100; k++) {
        (void)snprintf(*name, room, "%s.%ld-%u.new", path, (long)getpid(), k);
        *fd = open(*name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (*fd < 0 && errno != EEXIST) {
            break;
        }
    }
    if (*fd < 0) {
        return whi_refuse(WH_IO_ERROR, "%.200s: cannot create a file beside it: %s", path,
                          strerror(errno));
    }
    if (is_there) {
        (void)fchmod(*fd, old.st_mode & 0777);
    }
    return WH_OK;
}

#endif
