#include "dist/comm/process/transports.h"

#include <doctest/doctest.h>

#include <cstdlib>

#include "tensor/error.h"

using namespace tessera;
using namespace tessera::dist;

TEST_CASE("transports: TESSERA_TRANSPORT requests one of them, also by its earlier name") {
  struct Case {
    const char* value;
    Transport transport;
  };
  for (const auto& [value, transport] :
       {Case{"", Transport::automatic}, Case{"shared", Transport::shared}, Case{"remote", Transport::remote},
        Case{"messages", Transport::remote}}) {
    const char* const requested = value;  // clang 14 captures no structured binding
    CAPTURE(requested);
    ::setenv("TESSERA_TRANSPORT", value, 1);
    CHECK(requested_transport() == transport);
  }
  ::setenv("TESSERA_TRANSPORT", "tcp", 1);
  CHECK_THROWS_WITH_AS(requested_transport(), "TESSERA_TRANSPORT: expected 'shared' or 'remote', got 'tcp'",
                       ConfigError);
  ::unsetenv("TESSERA_TRANSPORT");
}
