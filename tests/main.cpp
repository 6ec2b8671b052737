#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <cstdlib>

// An exception that ends the program aborts, so that doctest names the test case.
[[maybe_unused]] static const int aborts = ::setenv("TESSERA_UNCAUGHT", "abort", 0);
