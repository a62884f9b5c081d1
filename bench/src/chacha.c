// Integer: ChaCha20 blocks (RFC 8439), counted up; adds, xors and rotations in registers.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t rotl(uint32_t x, int n) { return x << n | x >> (32 - n); }

static void quarter(uint32_t *s, int a, int b, int c, int d) {
  s[a] += s[b], s[d] = rotl(s[d] ^ s[a], 16);
  s[c] += s[d], s[b] = rotl(s[b] ^ s[c], 12);
  s[a] += s[b], s[d] = rotl(s[d] ^ s[a], 8);
  s[c] += s[d], s[b] = rotl(s[b] ^ s[c], 7);
}

static void block(const uint32_t in[16], uint32_t out[16]) {
  uint32_t s[16];
  memcpy(s, in, sizeof s);
  for (int round = 0; round < 10; round++) {
    for (int i = 0; i < 4; i++) quarter(s, i, 4 + i, 8 + i, 12 + i);
    for (int i = 0; i < 4; i++) quarter(s, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4);
  }
  for (int i = 0; i < 16; i++) out[i] = s[i] + in[i];
}

int main(int argc, char **argv) {
  long blocks = argc > 1 ? atol(argv[1]) : 1000;
  uint32_t in[16], out[16], sum[16] = {0};
  memcpy(in, "expand 32-byte k", 16);
  for (int i = 4; i < 16; i++) in[i] = 0x01010101u * (uint32_t)i;
  for (in[12] = 0; in[12] < (uint32_t)blocks; in[12]++) {
    block(in, out);
    for (int i = 0; i < 16; i++) sum[i] ^= out[i];
  }
  for (int i = 0; i < 16; i++) printf("%08x%c", sum[i], i % 8 == 7 ? '\n' : ' ');
}
