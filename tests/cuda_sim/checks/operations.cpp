#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/cuda_sim/run_ptx.h"
#include "tools/cuda_sim/checks/vector_clock_order.h"

using namespace tessera::cuda_sim;

namespace {

/// A card of two streams, where operations are issued and carried out as the test says.
class Streams {
 public:
  Streams() : device(0, testing::Card::default_settings(), findings, order) {
    findings.prints = false;
    a = order.add_stream("stream a");
    b = order.add_stream("stream b");
    module = std::make_unique<LoadedModule>(
        device, ptx::parse(testing::in_out_kernel(
                    "setp.eq.u64 %p1, %rd1, 0; @%p1 bra WRITE; add.u64 %rd4, %rd1, %rd3;"
                    "ld.global.u32 %r1, [%rd4]; setp.eq.u64 %p2, %rd2, 0; @%p2 bra END;"
                    "WRITE: add.u64 %rd5, %rd2, %rd3; st.global.u32 [%rd5], 1; END:")));
    atomics = std::make_unique<LoadedModule>(
        device,
        ptx::parse(testing::in_out_kernel("add.u64 %rd5, %rd2, %rd3; red.global.add.u32 [%rd5], 1;")));
    x = device.memory().allocate(1024, "x");
    y = device.memory().allocate(1024, "y");
  }
  /// Reads from `in` and writes to `out`; 0 leaves that out.
  void kernel(Operation operation, uint64_t in, uint64_t out) { run(*module, operation, in, out); }
  void add(Operation operation, uint64_t out) { run(*atomics, operation, 0, out); }
  void copy(Operation operation, uint64_t address, bool is_write) {
    device.shadow().access_range(operation, address, 1024, is_write, "copy");
  }
  Operation on(VectorClockOrder::Stream stream) { return order.issue(stream, "kernel k"); }

  VectorClockOrder order;
  Findings findings;
  Device device;
  VectorClockOrder::Stream a, b;
  std::unique_ptr<LoadedModule> module, atomics;
  uint64_t x, y;

 private:
  void run(LoadedModule& which, Operation operation, uint64_t in, uint64_t out) {
    const testing::Arguments arguments(in, out);
    run_grid(device, which.program("k"), {.grid = {8}, .block = {32}}, arguments.bytes(), operation);
  }
};

}  // namespace

TEST_CASE("operations: a kernel reads what another stream writes") {
  for (const bool waits : {false, true}) {
    CAPTURE(waits);
    Streams s;
    const Operation write = s.on(s.a);
    if (waits) s.order.wait(s.b, s.order.record(s.a));
    const Operation read = s.on(s.b);
    s.kernel(write, 0, s.x);
    s.kernel(read, s.x, 0);
    CHECK(s.findings.count() == (waits ? 0 : 8));
    if (waits) continue;
    const Finding finding = s.findings.all()[0];
    CHECK(finding.check == Check::stream_race);
    CHECK(finding.message.find(
              "read of 4 bytes in no order with the write by kernel k on stream a (operation 1)") !=
          std::string::npos);
    CHECK(finding.message.find("offset 0 of allocation 1 (x, 1024 bytes") != std::string::npos);
  }
}

TEST_CASE("operations: found in the other order of execution too") {
  Streams s;
  s.copy(s.order.host_access("fill"), s.x, true);
  const Operation write = s.on(s.a), read = s.on(s.b);
  s.kernel(read, s.x, 0);
  CHECK(s.findings.count() == 0);
  s.kernel(write, 0, s.x);
  REQUIRE(s.findings.all().size() == 1);
  CHECK(s.findings.all()[0].check == Check::stream_race);
  CHECK(s.findings.all()[0].message.find("in no order with the read by kernel k on stream b") !=
        std::string::npos);
}

TEST_CASE("operations: reads of two streams, then a write that waits for one of them") {
  for (const int waits : {0, 1, 2}) {
    CAPTURE(waits);
    Streams s;
    const Operation fill = s.on(s.a);
    s.order.wait(s.b, s.order.record(s.a));
    const Operation first = s.on(s.a), second = s.on(s.b);
    if (waits == 2) s.order.wait(s.a, s.order.record(s.b));
    const auto c = s.order.add_stream("stream c");
    if (waits == 1) s.order.wait(c, s.order.record(s.b));
    const Operation write = waits == 2 ? s.on(s.a) : s.on(c);
    s.kernel(fill, 0, s.x);
    s.kernel(first, s.x, 0);
    s.kernel(second, s.x, 0);
    CHECK(s.findings.count() == 0);
    s.kernel(write, 0, s.x);
    CHECK((s.findings.count() == 0) == (waits == 2));
    for (const Finding& finding : s.findings.all()) CHECK(finding.check == Check::stream_race);
  }
}

TEST_CASE("operations: atomics of two streams, and the fill that only one of them waits for") {
  for (const bool waits : {false, true}) {
    CAPTURE(waits);
    Streams s;
    const Operation fill = s.on(s.a);
    if (waits) s.order.wait(s.b, s.order.record(s.a));
    const Operation first = s.on(s.a), second = s.on(s.b);
    s.copy(fill, s.x, true);
    s.add(first, s.x);
    CHECK(s.findings.count() == 0);
    s.add(second, s.x);
    CHECK((s.findings.count() == 0) == waits);
    // A reader must wait for both.
    s.findings.clear();
    s.order.wait(s.a, s.order.record(s.b));
    s.kernel(s.on(s.a), s.x, 0);
    CHECK(s.findings.count() == 0);
    s.kernel(s.on(s.b), s.x, 0);
    CHECK(s.findings.count() != 0);
  }
}

TEST_CASE("operations: copies and the host") {
  Streams s;
  const Operation fill = s.on(s.a), copy = s.order.issue(s.b, "copy to the host");
  s.kernel(fill, 0, s.x);
  s.copy(copy, s.x, false);
  REQUIRE(s.findings.all().size() == 1);
  CHECK(s.findings.all()[0].check == Check::stream_race);
  s.findings.clear();
  s.order.host_sync(s.a);
  s.copy(s.order.host_access("read"), s.x, false);
  CHECK(s.findings.count() == 0);
  // Bytes never written; after forget, too.
  s.copy(s.on(s.a), s.y, false);
  REQUIRE(s.findings.all().size() == 1);
  CHECK(s.findings.all()[0].check == Check::initialisation);
  s.findings.clear();
  s.order.host_sync_all();
  s.device.shadow().forget(s.x, 512);
  s.copy(s.on(s.a), s.x, false);
  REQUIRE(s.findings.all().size() == 1);
  CHECK(s.findings.all()[0].message.find("byte 0") != std::string::npos);
}

TEST_CASE("operations: memory that was freed names both") {
  Streams s;
  s.kernel(s.on(s.a), 0, s.x);
  s.device.memory().release(s.x, s.order.issue(s.a, "cudaFreeAsync"));
  try {
    s.kernel(s.on(s.a), s.x, 0);
    FAIL("a kernel ended well that read freed memory");
  } catch (const KernelFault& fault) {
    CHECK(fault.code() == 700);
  }
  REQUIRE(s.findings.all().size() == 1);
  const Finding finding = s.findings.all()[0];
  CHECK(finding.check == Check::use_after_free);
  CHECK(finding.message.find("allocation 1 (x, 1024 bytes at ") != std::string::npos);
  CHECK(finding.message.find("which cudaFreeAsync on stream a (operation 2) freed") != std::string::npos);
}

TEST_CASE("operations: whole pages are written and read as one, and split again") {
  Streams s;
  const uint64_t big = s.device.memory().allocate(1 << 20, "big");
  const Operation fill = s.on(s.a);
  s.device.shadow().access_range(fill, big + 3, (1 << 20) - 7, true, "fill");
  s.device.shadow().access_range(s.on(s.a), big + 3, (1 << 20) - 7, false, "copy");
  CHECK(s.findings.count() == 0);
  s.device.shadow().access_range(s.on(s.a), big + 2, 8, false, "copy");
  CHECK(s.findings.count() == 1);
  s.device.shadow().access_range(s.on(s.a), big + (1 << 20) - 4, 1, false, "copy");
  CHECK(s.findings.count() == 2);
  s.kernel(s.on(s.b), big + 8192, 0);
  CHECK(s.findings.all().back().check == Check::stream_race);
}

TEST_CASE("operations: a host pointer, and what a finding says") {
  Streams s;
  std::vector<uint32_t> host(256);
  CHECK_THROWS_AS(s.kernel(s.on(s.a), reinterpret_cast<uint64_t>(host.data()), 0), KernelFault);
  REQUIRE(s.findings.all().size() == 1);
  const Finding finding = s.findings.all()[0];
  CHECK(finding.check == Check::bounds);
  CHECK(finding.count == 256);
  CHECK(finding.message.find("a host pointer") != std::string::npos);
  CHECK(finding.site.kernel == "k");
  CHECK(finding.site.instruction.find("ld.global.u32") == 0);
  CHECK(finding.site.thread < 32);
}

TEST_CASE("operations: a check that is off says nothing") {
  Streams s;
  s.findings.switch_by_text("all,-stream-race,-initialisation");
  s.kernel(s.on(s.a), 0, s.x);
  s.kernel(s.on(s.b), s.x, 0);
  s.kernel(s.on(s.b), s.y, 0);
  CHECK(s.findings.count() == 0);
  CHECK_THROWS_AS(s.kernel(s.on(s.b), s.y + 512, 0), KernelFault);  // bounds stay on
  CHECK(s.findings.count() != 0);
}
