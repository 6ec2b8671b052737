#include <unistd.h>

#include <iostream>

#include "tools/gptlite/command_line.h"

int main(int argc, char** argv) {
  return tessera::gptlite::run_command_line(argc, argv, {std::cout, isatty(STDOUT_FILENO) != 0}, std::cerr);
}
