/* In a copy of the extension made for a test, this stands in the place of the system's resolver. Names
 * that end in .test resolve as the test needs it, all others as usual.
 *
 *   slow.test     does not answer for half a minute
 *   A-B.test      two addresses in this order: 127-0-0-2-127-0-0-1.test is 127.0.0.2 and 127.0.0.1
 */
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int getaddrinfT(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found)
{
    unsigned a[8];
    char address[2][16];

    if (name != NULL && strcmp(name, "slow.test") == 0) {
        sleep(30);
        return EAI_AGAIN;
    }
    if (name != NULL && strstr(name, ".test") != NULL &&
        sscanf(name, "%u-%u-%u-%u-%u-%u-%u-%u", a, a + 1, a + 2, a + 3, a + 4, a + 5, a + 6, a + 7) == 8) {
        struct addrinfo *last;
        int error;

        snprintf(address[0], sizeof address[0], "%u.%u.%u.%u", a[0] & 255, a[1] & 255, a[2] & 255, a[3] & 255);
        snprintf(address[1], sizeof address[1], "%u.%u.%u.%u", a[4] & 255, a[5] & 255, a[6] & 255, a[7] & 255);
        if ((error = getaddrinfo(address[0], service, hints, found)) != 0)
            return error;
        for (last = *found; last->ai_next != NULL; last = last->ai_next)
            ;
        return getaddrinfo(address[1], service, hints, &last->ai_next);
    }
    return getaddrinfo(name, service, hints, found);
}
