// at_isa SET COMMAND [ARGUMENT...]: runs COMMAND with kernels limited to SET, an instruction set. Where the
// processor lacks SET it prints so and exits with 77, CTest's status of a skipped test.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "tensor/cpu/isa.h"
#include "tensor/error.h"

int main(int count, char** arguments) {
  using namespace tessera::kernels::cpu;
  constexpr int skipped = 77, wrong_usage = 2;
  if (count < 3) {
    std::fprintf(stderr, "usage: at_isa SET COMMAND [ARGUMENT...]\n");
    return wrong_usage;
  }
  try {
    const Isa wanted = parse_isa_limit(arguments[1]);
    if (wanted > processor_isa()) {
      std::printf("skipped: this processor's highest instruction set is %s, which is below %s\n",
                  name(processor_isa()).data(), name(wanted).data());
      return skipped;
    }
  } catch (const tessera::Error& error) {
    std::fprintf(stderr, "at_isa: %s\n", error.what());
    return wrong_usage;
  }
  setenv("TESSERA_ISA_MAX", arguments[1], 1);
  execv(arguments[2], arguments + 2);
  std::perror(arguments[2]);
  return wrong_usage;
}
