// One end of an upload over UDT, with the means of Debian's libudt: `heddle-udt server|client ADDRESS PORT OCTETS`.
// The client's octets are repeated with a prime period, and the server checks them.

#include <arpa/inet.h>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <udt.h>
#include <vector>

static const size_t PERIOD = 65521;

static int fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, UDT::getlasterror().getErrorMessage());
    return 1;
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: heddle-udt server|client ADDRESS PORT OCTETS\n");
        return 2;
    }
    bool is_client = strcmp(argv[1], "client") == 0;
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(atoi(argv[3])));
    if (inet_pton(AF_INET, argv[2], &address.sin_addr) != 1) {
        fprintf(stderr, "%s is no IPv4 address\n", argv[2]);
        return 2;
    }
    unsigned long long octets = strtoull(argv[4], nullptr, 10);
    std::vector<char> pattern(2 * PERIOD), buffer(PERIOD);
    for (size_t place = 0; place < pattern.size(); place++)
        pattern[place] = static_cast<char>((place % PERIOD) * 0x9e3779b9u >> 13);
    auto start = std::chrono::steady_clock::now();
    UDT::startup();
    UDTSOCKET stream = UDT::socket(AF_INET, SOCK_STREAM, 0), listener = UDT::INVALID_SOCK;
    char done = 0;
    if (is_client) {
        if (UDT::connect(stream, reinterpret_cast<sockaddr *>(&address), sizeof address) == UDT::ERROR)
            return fail("connect");
        for (unsigned long long offset = 0; offset < octets;) {
            unsigned long long left = octets - offset;
            int length = static_cast<int>(left < PERIOD ? left : PERIOD);
            int sent = UDT::send(stream, pattern.data() + offset % PERIOD, length, 0);
            if (sent == UDT::ERROR)
                return fail("send");
            offset += static_cast<unsigned long long>(sent);
        }
        if (UDT::recv(stream, &done, 1, 0) == UDT::ERROR)
            return fail("the server's answer");
    } else {
        listener = stream;
        if (UDT::bind(listener, reinterpret_cast<sockaddr *>(&address), sizeof address) == UDT::ERROR)
            return fail("bind");
        UDT::listen(listener, 1);
        fprintf(stderr, "ready\n");
        stream = UDT::accept(listener, nullptr, nullptr);
        if (stream == UDT::INVALID_SOCK)
            return fail("accept");
        for (unsigned long long offset = 0; offset < octets;) {
            int got = UDT::recv(stream, buffer.data(), static_cast<int>(PERIOD), 0);
            if (got == UDT::ERROR)
                return fail("receive");
            if (memcmp(buffer.data(), pattern.data() + offset % PERIOD, static_cast<size_t>(got)) != 0) {
                fprintf(stderr, "other octets near %llu\n", offset);
                return 1;
            }
            offset += static_cast<unsigned long long>(got);
        }
        if (UDT::send(stream, &done, 1, 0) == UDT::ERROR)
            return fail("answer");
    }
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    UDT::close(stream);
    if (!is_client)
        UDT::close(listener);
    UDT::cleanup();
    timespec cpu = {};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    printf("{\"seconds\":%f,\"cpu_seconds\":%f}\n", seconds, double(cpu.tv_sec) + double(cpu.tv_nsec) / 1e9);
    return 0;
}
