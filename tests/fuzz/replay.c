/* replay.c: the corpus of a target, once, without libFuzzer.
 *
 *   fuzz_TARGET_replay FILE_OR_FOLDER... */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"

/* Whether it could be read. */
static int replay_file(const char *path) {
    FILE *f = fopen(path, "rb");
    uint8_t *bytes = NULL;
    size_t n = 0, room = 0;
    if (f == NULL) {
        return 0;
    }
    do {
        if (n == room) {
            room = room != 0 ? 2 * room : 4096;
            bytes = realloc(bytes, room);
            fuzz_require(bytes != NULL, "there is memory for a file of the corpus");
        }
        n += fread(bytes + n, 1, room - n, f);
    } while (n == room);
    (void)fclose(f);
    fuzz_one(bytes, n);
    free(bytes);
    return 1;
}

int main(int argc, char **argv) {
    int done = 0;
    for (int i = 1; i < argc; i++) {
        DIR *folder = opendir(argv[i]);
        for (struct dirent *e; folder != NULL && (e = readdir(folder)) != NULL;) {
            char path[4096];
            (void)snprintf(path, sizeof path, "%s/%s", argv[i], e->d_name);
            done += e->d_name[0] != '.' && replay_file(path);
        }
        if (folder != NULL) {
            (void)closedir(folder);
        } else {
            done += replay_file(argv[i]);
        }
    }
    printf("%d files\n", done);
    return done == 0;
}
