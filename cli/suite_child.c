/* suite_child.c: the child process of a suite, seen from its parent: started with this very
 * program, in a process group of its own, so that a key that interrupts reaches the parent alone.
 */
#define _GNU_SOURCE /* pipe2, strsignal */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "cli/suite.h"

/* How long the parent sleeps at most: a signal that comes just before does not wake it. */
#define LOOK_MS 200

static volatile sig_atomic_t stopped;

static void note(int signal_number) {
    stopped = signal_number;
}

void suite_note_signals(void) {
    struct sigaction a;
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    memset(&a, 0, sizeof a);
    a.sa_handler = note;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction was;
        if (sigaction(numbers[i], NULL, &was) == 0 && was.sa_handler != SIG_IGN) { /* nohup */
            (void)sigaction(numbers[i], &a, NULL);
        }
    }
    a.sa_handler = SIG_IGN; /* a child that is gone is seen otherwise */
    (void)sigaction(SIGPIPE, &a, NULL);
}

int suite_is_stopped(void) {
    return stopped != 0;
}

double suite_seconds(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* In the child. Handlers do not outlive exec; what is ignored would. */
static void become_child(int in, int out) {
    static char *const arguments[] = {"warpheap", "bench", "--serve", NULL};
    (void)signal(SIGPIPE, SIG_DFL);
    (void)setpgid(0, 0);
#ifdef __linux__
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a kernel that hangs outlives no parent */
#endif
    if (dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0) {
        (void)execv("/proc/self/exe", arguments);
    }
    _exit(127);
}

int suite_child_start(suite_child *c) {
    int in[2], out[2];
    memset(c, 0, sizeof *c);
    if (pipe2(in, O_CLOEXEC) != 0) {
        return 0;
    }
    if (pipe2(out, O_CLOEXEC) != 0) {
        (void)close(in[0]);
        (void)close(in[1]);
        return 0;
    }
    c->pid = fork();
    if (c->pid == 0) {
        become_child(in[0], out[1]);
    }
    const int why = errno;
    (void)close(in[0]);
    (void)close(out[1]);
    c->to = in[1];
    c->from = out[0];
    if (c->pid < 0) {
        (void)close(c->to);
        (void)close(c->from);
        c->pid = 0;
        errno = why;
    }
    return c->pid != 0;
}

int suite_child_send(suite_child *c, const char *line) {
    size_t length = strlen(line);
    while (length != 0) {
        const ssize_t n = write(c->to, line, length);
        if (n < 0 && errno != EINTR) {
            return 0;
        }
        line += n > 0 ? n : 0;
        length -= n > 0 ? (size_t)n : 0;
    }
    return 1;
}

/* The next line of what was received; NULL: none is whole. */
static const char *next_line(suite_child *c) {
    char *begin = c->text + c->begin;
    char *end = c->used > c->begin ? memchr(begin, '\n', c->used - c->begin) : NULL;
    if (end == NULL) {
        return NULL;
    }
    *end = '\0';
    c->begin = (size_t)(end - c->text) + 1;
    return begin;
}

/* Receives more. 0: there will be none. */
static int receive(suite_child *c) {
    if (c->begin != 0) {
        memmove(c->text, c->text + c->begin, c->used - c->begin);
        c->used -= c->begin;
        c->begin = 0;
    }
    if (c->room - c->used < 4096) {
        char *more = realloc(c->text, c->room + 65536);
        if (more == NULL) {
            return 0;
        }
        c->text = more;
        c->room += 65536;
    }
    const ssize_t n = read(c->from, c->text + c->used, c->room - c->used);
    c->used += n > 0 ? (size_t)n : 0;
    return n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN));
}

suite_event suite_child_line(suite_child *c, double deadline, const char **line) {
    for (;;) {
        struct pollfd from = {.fd = c->from, .events = POLLIN};
        *line = next_line(c);
        if (*line != NULL) {
            return SUITE_LINE;
        }
        if (stopped) {
            return SUITE_STOPPED;
        }
        if (suite_seconds() > deadline) {
            return SUITE_TIME_OVER;
        }
        if (poll(&from, 1, LOOK_MS) > 0 && !receive(c)) {
            return SUITE_ENDED;
        }
    }
}

void suite_child_stop(suite_child *c, int kill_it, char *text, size_t size) {
    int status = 0;
    if (c->pid == 0) {
        return;
    }
    if (kill_it) {
        (void)kill(c->pid, SIGKILL);
    }
    (void)close(c->to);
    while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFSIGNALED(status)) {
        const int number = WTERMSIG(status);
        (void)snprintf(text, size, "ended by signal %d (%s)", number, strsignal(number));
    } else {
        (void)snprintf(text, size, "ended with exit status %d", WEXITSTATUS(status));
    }
    (void)close(c->from);
    free(c->text);
    memset(c, 0, sizeof *c);
}
