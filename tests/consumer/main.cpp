#include <tessera/tessera.h>

#include <cstdio>

int main() {
  std::printf("built with Tessera %s\n", TESSERA_VERSION);
}
