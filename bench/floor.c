/*
 * The floor: what a bare socket needs for the two round trips of a lock, with nothing of PHP around it.
 *
 *   floor sleep|spin ADDRESS KEY [TEMPLATE]
 *
 * ADDRESS is HOST:PORT or the path of a unix socket. A cycle is SET KEY token NX PX 10000 and DEL KEY, with
 * a new token from the kernel. TEMPLATE, a file, gives two other commands, each as its length on a line and
 * then its bytes: 32 T stand for the token, 16 F for the wall clock in microseconds.
 *
 * Reads "cycles N" from its input and answers "WALL_NS CPU_NS", as worker.php does.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define TOKEN "TTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTT"
#define CLOCK "FFFFFFFFFFFFFFFF"

struct command {
    char bytes[2048];
    size_t length;
};

static void fail(const char *what)
{
    fprintf(stderr, "floor: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int connect_to(const char *address)
{
    const char *colon = strrchr(address, ':');
    int fd, one = 1;

    if (address[0] == '/') {
        struct sockaddr_un unix_address = {.sun_family = AF_UNIX};
        snprintf(unix_address.sun_path, sizeof unix_address.sun_path, "%s", address);
        fd = socket(AF_UNIX, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&unix_address, sizeof unix_address)) fail(address);
        return fd;
    }
    struct sockaddr_in tcp_address = {.sin_family = AF_INET, .sin_port = htons(atoi(colon + 1))};
    tcp_address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&tcp_address, sizeof tcp_address)) fail(address);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void fill_in(struct command *command, const char *place, const char *value)
{
    size_t length = strlen(place);
    char *end = command->bytes + command->length;

    for (char *at = command->bytes; (at = memmem(at, end - at, place, length)); at += length)
        memcpy(at, value, length);
}

static void exchange(int fd, const struct command *template, const char *token, const char *clock, int flags)
{
    struct command command = *template;
    char reply[512];
    ssize_t got;

    fill_in(&command, TOKEN, token);
    fill_in(&command, CLOCK, clock);
    if (send(fd, command.bytes, command.length, MSG_NOSIGNAL) != (ssize_t)command.length) fail("send");
    while ((got = recv(fd, reply, sizeof reply, flags)) < 0 && (errno == EAGAIN || errno == EINTR));
    /* Every reply of these is short and comes in one piece. */
    if (got < 3 || memcmp(reply + got - 2, "\r\n", 2) || reply[0] == '-' || !memcmp(reply, "$-", 2)
        || !memcmp(reply, ":0", 2))
        fail("the server did not agree");
}

static void cycle(int fd, const struct command commands[2], int flags)
{
    unsigned char bits[16];
    char token[33], clock[17];
    struct timespec now;

    if (getrandom(bits, sizeof bits, 0) != sizeof bits) fail("getrandom");
    for (int i = 0; i < 16; i++) {
        token[2 * i] = "0123456789abcdef"[bits[i] >> 4];
        token[2 * i + 1] = "0123456789abcdef"[bits[i] & 15];
    }
    token[32] = '\0';
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(clock, sizeof clock, "%016llu", now.tv_sec * 1000000ULL + now.tv_nsec / 1000);
    exchange(fd, &commands[0], token, clock, flags);
    exchange(fd, &commands[1], token, clock, flags);
}

static unsigned long long wall(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static unsigned long long cpu(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return ((usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000ULL + usage.ru_utime.tv_usec
            + usage.ru_stime.tv_usec) * 1000;
}

static void plain_commands(struct command commands[2], const char *key)
{
    size_t length = strlen(key);

    commands[0].length = snprintf(commands[0].bytes, sizeof commands[0].bytes,
        "*6\r\n$3\r\nSET\r\n$%zu\r\n%s\r\n$32\r\n" TOKEN "\r\n$2\r\nNX\r\n$2\r\nPX\r\n$5\r\n10000\r\n", length, key);
    commands[1].length = snprintf(commands[1].bytes, sizeof commands[1].bytes,
        "*2\r\n$3\r\nDEL\r\n$%zu\r\n%s\r\n", length, key);
}

static void read_commands(struct command commands[2], const char *path)
{
    FILE *file = fopen(path, "r");

    if (!file) fail(path);
    for (int i = 0; i < 2; i++) {
        if (fscanf(file, "%zu", &commands[i].length) != 1 || commands[i].length > sizeof commands[i].bytes) fail(path);
        fgetc(file);
        if (fread(commands[i].bytes, 1, commands[i].length, file) != commands[i].length) fail(path);
    }
    fclose(file);
}

int main(int count, char **arguments)
{
    struct command commands[2];
    char line[64];

    if (count < 4) return 2;
    int fd = connect_to(arguments[2]);
    int flags = strcmp(arguments[1], "spin") ? 0 : MSG_DONTWAIT;
    if (count > 4) read_commands(commands, arguments[4]);
    else plain_commands(commands, arguments[3]);

    while (fgets(line, sizeof line, stdin)) {
        long cycles = atol(line + strlen("cycles "));
        unsigned long long cpu_before = cpu(), before = wall();
        for (long i = 0; i < cycles; i++) cycle(fd, commands, flags);
        printf("%llu %llu\n", wall() - before, cpu() - cpu_before);
        fflush(stdout);
    }
    return 0;
}
