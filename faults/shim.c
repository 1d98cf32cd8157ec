/* A library to preload (LD_PRELOAD): it counts the calls that change the disk below one folder, and at the N-th one
 * sends a signal or makes the disk fail. It is inactive until faults_arm() is called, which a forked child does for itself.
 *
 * Counted: opening for writing, creating, writing, syncing, renaming, linking, making and deleting files and folders, and
 * truncating. Paths are compared as spelled; a relative one is resolved against the folder it is relative to. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum action { COUNT, SIGNAL_BEFORE, SIGNAL_AFTER, SIGNAL_HALFWAY, FAIL_FROM, FAIL_ONCE, HALF_THEN_FAIL, ALWAYS_HALF };

static char folder[PATH_MAX];
static size_t folder_length; /* 0: inactive */
static enum action action;
static long at;
static int value;  /* a signal, or an error number */
static int target; /* the receiver of a signal, as in kill(2) */
static int journal = -1;
static atomic_long calls;

void faults_arm(const char *below, int what, long when, int what_value, int whom, const char *journal_path)
{
    strncpy(folder, below, sizeof folder - 1);
    action = what, at = when, value = what_value, target = whom;
    journal = journal_path ? syscall(SYS_openat, AT_FDCWD, journal_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    atomic_store(&calls, 0);
    folder_length = strlen(folder);
}

long faults_calls(void) { return atomic_load(&calls); }

static int below(const char *path)
{
    return !strncmp(path, folder, folder_length) && (path[folder_length] == '/' || path[folder_length] == '\0');
}

static void path_of(int descriptor, char *path)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    path[length > 0 ? length : 0] = '\0';
}

static int whole(int from, const char *given, char *path) /* whether the absolute path is below the folder */
{
    if (!folder_length || !given)
        return 0;
    if (given[0] == '/') {
        snprintf(path, PATH_MAX, "%s", given);
    } else {
        char start[PATH_MAX] = "";
        if (from != AT_FDCWD)
            path_of(from, start);
        else if (!getcwd(start, sizeof start))
            return 0;
        size_t length = strlen(start);
        snprintf(path, PATH_MAX, "%s", start);
        snprintf(path + length, PATH_MAX - length, "/%s", given);
    }
    return below(path);
}

static int whole_of(int descriptor, char *path)
{
    if (!folder_length)
        return 0;
    path_of(descriptor, path);
    return below(path);
}

/* What a starting call must do: 0 to continue, -1 to fail with errno set. *number is its place in the count. */
static int begins(const char *name, const char *path, const char *other, int takes_space, long *number)
{
    *number = atomic_fetch_add(&calls, 1) + 1;
    if (journal >= 0) {
        char line[2 * PATH_MAX + 64];
        int length = snprintf(line, sizeof line, "%ld\t%s\t%s\t%s\n", *number, name, path, other ? other : "");
        syscall(SYS_write, journal, line, length);
    }
    if (action == SIGNAL_BEFORE && *number == at)
        kill(target, value);
    int due = action == FAIL_ONCE ? *number == at
              : action == HALF_THEN_FAIL ? *number > at || (*number == at && strcmp(name, "write"))
                                         : action == FAIL_FROM && *number >= at;
    if (due && (takes_space || value != ENOSPC)) { /* a full disk allows deletion */
        errno = value;
        return -1;
    }
    return 0;
}

static void ends(long number)
{
    if (number == at && (action == SIGNAL_AFTER || action == SIGNAL_HALFWAY)) {
        int saved = errno;
        kill(target, value);
        errno = saved;
    }
}

static int missing(const char *path)
{
    struct stat found;
    int saved = errno, is_missing = fstatat(AT_FDCWD, path, &found, AT_SYMLINK_NOFOLLOW) != 0;
    errno = saved;
    return is_missing;
}

static const char *opening(const char *path) { return missing(path) ? "create" : "open"; }

static size_t allowed(size_t count, long number) /* how much of a write is done */
{
    int halved = action == ALWAYS_HALF || (number == at && (action == SIGNAL_HALFWAY || action == HALF_THEN_FAIL));
    return halved && count > 1 ? count / 2 : count;
}

#define REAL(name)                                    \
    static __typeof__(&name) real;                    \
    if (!real)                                        \
    real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define TURN(is_below, name, path, other, takes_space, call)       \
    do {                                                           \
        long number;                                               \
        if (!(is_below))                                           \
            return call;                                           \
        if (begins(name, path, other, takes_space, &number))       \
            return -1;                                             \
        __typeof__(call) result = call;                            \
        ends(number);                                              \
        return result;                                             \
    } while (0)

#define CHANGES(flags) ((flags) & (O_CREAT | O_TRUNC | O_WRONLY | O_RDWR))
#define MODE(flags)                                    \
    mode_t mode = 0;                                   \
    if ((flags) & (O_CREAT | O_TMPFILE)) {             \
        va_list list;                                  \
        va_start(list, flags);                         \
        mode = va_arg(list, mode_t);                   \
        va_end(list);                                  \
    }

#define OPEN(name)                                                                                    \
    int name(const char *given, int flags, ...)                                                       \
    {                                                                                                 \
        REAL(name);                                                                                   \
        MODE(flags)                                                                                   \
        char path[PATH_MAX];                                                                          \
        TURN(CHANGES(flags) && whole(AT_FDCWD, given, path), opening(path), path, 0, 1, real(given, flags, mode)); \
    }
#define OPENAT(name)                                                                                  \
    int name(int from, const char *given, int flags, ...)                                             \
    {                                                                                                 \
        REAL(name);                                                                                   \
        MODE(flags)                                                                                   \
        char path[PATH_MAX];                                                                          \
        TURN(CHANGES(flags) && whole(from, given, path), opening(path), path, 0, 1, real(from, given, flags, mode)); \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

#define CREAT(name)                                                                             \
    int name(const char *given, mode_t mode)                                                    \
    {                                                                                           \
        REAL(name);                                                                             \
        char path[PATH_MAX];                                                                    \
        TURN(whole(AT_FDCWD, given, path), opening(path), path, 0, 1, real(given, mode));              \
    }
CREAT(creat)
CREAT(creat64)

#define WRITE(name, arguments, call)                                                            \
    ssize_t name arguments                                                                      \
    {                                                                                           \
        REAL(name);                                                                             \
        char path[PATH_MAX];                                                                    \
        if (!whole_of(descriptor, path))                                                        \
            return call;                                                                        \
        long number;                                                                            \
        if (begins("write", path, 0, 1, &number))                                               \
            return -1;                                                                          \
        count = allowed(count, number);                                                         \
        ssize_t result = call;                                                                  \
        ends(number);                                                                           \
        return result;                                                                          \
    }
WRITE(write, (int descriptor, const void *data, size_t count), real(descriptor, data, count))
WRITE(pwrite, (int descriptor, const void *data, size_t count, off_t place), real(descriptor, data, count, place))
WRITE(pwrite64, (int descriptor, const void *data, size_t count, off64_t place), real(descriptor, data, count, place))

ssize_t writev(int descriptor, const struct iovec *parts, int count)
{
    REAL(writev);
    char path[PATH_MAX];
    TURN(whole_of(descriptor, path), "write", path, 0, 1, real(descriptor, parts, count));
}

#define ON_DESCRIPTOR(name, kind, arguments, takes_space, call)                \
    int name arguments                                                         \
    {                                                                          \
        REAL(name);                                                            \
        char path[PATH_MAX];                                                   \
        TURN(whole_of(descriptor, path), kind, path, 0, takes_space, call);    \
    }
ON_DESCRIPTOR(fsync, "fsync", (int descriptor), 1, real(descriptor))
ON_DESCRIPTOR(fdatasync, "fsync", (int descriptor), 1, real(descriptor))
ON_DESCRIPTOR(ftruncate, "truncate", (int descriptor, off_t length), 1, real(descriptor, length))
ON_DESCRIPTOR(ftruncate64, "truncate", (int descriptor, off64_t length), 1, real(descriptor, length))

#define ON_PATH(name, kind, arguments, from, takes_space, call)                \
    int name arguments                                                         \
    {                                                                          \
        REAL(name);                                                            \
        char path[PATH_MAX];                                                   \
        TURN(whole(from, given, path) && WANTED(kind, path), kind, path, 0, takes_space, call); \
    }
#define WANTED(kind, path) (kind[0] != 'm' || missing(path)) /* making an existing folder changes nothing */
ON_PATH(mkdir, "mkdir", (const char *given, mode_t mode), AT_FDCWD, 1, real(given, mode))
ON_PATH(mkdirat, "mkdir", (int from, const char *given, mode_t mode), from, 1, real(from, given, mode))
ON_PATH(unlink, "delete", (const char *given), AT_FDCWD, 0, real(given))
ON_PATH(unlinkat, "delete", (int from, const char *given, int flags), from, 0, real(from, given, flags))
ON_PATH(rmdir, "delete", (const char *given), AT_FDCWD, 0, real(given))
ON_PATH(remove, "delete", (const char *given), AT_FDCWD, 0, real(given))
ON_PATH(truncate, "truncate", (const char *given, off_t length), AT_FDCWD, 1, real(given, length))
ON_PATH(truncate64, "truncate", (const char *given, off64_t length), AT_FDCWD, 1, real(given, length))

#define TWO_PATHS(name, kind, arguments, from, to, call)                                                              \
    int name arguments                                                                                                \
    {                                                                                                                 \
        REAL(name);                                                                                                   \
        char path[PATH_MAX], other[PATH_MAX];                                                                         \
        TURN(whole(to, target_path, other) + whole(from, given, path), kind, path, other, 1, call);                   \
    }
TWO_PATHS(rename, "rename", (const char *given, const char *target_path), AT_FDCWD, AT_FDCWD, real(given, target_path))
TWO_PATHS(renameat, "rename", (int from, const char *given, int to, const char *target_path), from, to,
          real(from, given, to, target_path))
TWO_PATHS(renameat2, "rename", (int from, const char *given, int to, const char *target_path, unsigned flags), from, to,
          real(from, given, to, target_path, flags))
TWO_PATHS(link, "link", (const char *given, const char *target_path), AT_FDCWD, AT_FDCWD, real(given, target_path))
TWO_PATHS(linkat, "link", (int from, const char *given, int to, const char *target_path, int flags), from, to,
          real(from, given, to, target_path, flags))

int symlink(const char *content, const char *given)
{
    REAL(symlink);
    char path[PATH_MAX];
    TURN(whole(AT_FDCWD, given, path), "link", path, 0, 1, real(content, given));
}
