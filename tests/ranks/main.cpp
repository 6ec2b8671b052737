#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "dist/launch/launch.h"

/// Every rank runs the same cases in the same order; all tell what fails, and the first one how it went.
int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  if (tessera::dist::launcher_job().rank != 0) context.setOption("minimal", true);
  return context.run();
}
