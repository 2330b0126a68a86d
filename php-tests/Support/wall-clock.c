/* In a copy of the extension made for a test, these stand in the place of the system's functions, under names of the
 * same length. The wall clock is apart by WALL_OFFSET_MS, and no other clock is. What is sent is looked at: how often
 * several nodes were asked to raise a fence, counting once for all nodes together, is appended to the file RAISES_FILE.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

static long offset;
static long raises;
static char latest[96];
static char *raises_file;

__attribute__((constructor)) static void begin(void)
{
    /* PHP has put its environment away when the destructor runs. */
    raises_file = getenv("RAISES_FILE") ? strdup(getenv("RAISES_FILE")) : NULL;
    offset = getenv("WALL_OFFSET_MS") ? atol(getenv("WALL_OFFSET_MS")) : 0;
}

int clock_gettimT(clockid_t clock, struct timespec *at)
{
    int result = clock_gettime(clock, at);
    if (result == 0 && clock == CLOCK_REALTIME) {
        at->tv_sec += offset / 1000;
        at->tv_nsec += offset % 1000 * 1000000;
        at->tv_sec += at->tv_nsec / 1000000000;
        at->tv_nsec %= 1000000000;
    }
    return result;
}

ssize_t senT(int socket, const void *bytes, size_t length, int flags)
{
    /* Of the scripts that are called in eight words, it is the one with two keys. */
    static const char two_keys[] = "\r\n$1\r\n2\r\n";
    const char *tail = (const char *)bytes + length - sizeof latest;
    if (length > sizeof latest && !memcmp(bytes, "*8\r\n", 4) && memmem(bytes, length, two_keys, sizeof two_keys - 1)
        && memcmp(tail, latest, sizeof latest)) {
        memcpy(latest, tail, sizeof latest);
        raises++;
    }
    return send(socket, bytes, length, flags);
}

__attribute__((destructor)) static void tell(void)
{
    FILE *file = raises_file ? fopen(raises_file, "a") : NULL;
    if (file) {
        fprintf(file, "%ld\n", raises);
        fclose(file);
    }
}
