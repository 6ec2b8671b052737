#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "dist/launch/launch.h"

/// Every rank runs the same cases in the same order. All ranks print failures, rank 0 the summary too.
int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  if (tessera::dist::launcher_job().rank != 0) context.setOption("minimal", true);
  return context.run();
}
