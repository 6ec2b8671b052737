// The errors of ranks that make different calls.
#include <stdexcept>

#include "tests/dist/comm/conformance.h"

namespace tessera::dist::conformance {
namespace {

Tensor zeros(const Communicator& c, int64_t n, DType dtype = f32) {
  return Tensor::zeros({n}, dtype, c.device());
}

/// Every rank gets a MismatchError that names both calls. Rank 1 makes the odd one.
template <class Body>
std::function<void(Communicator&)> mismatched(Body body, std::string first, std::string second) {
  return [=](Communicator& c) {
    std::string message;
    try {
      body(c, c.rank() == 1).wait();
      c.barrier().wait();
    } catch (const MismatchError& error) {
      message = error.what();
    }
    for (const std::string& phrase : {first, second, std::string("rank 1 ")})
      expect(message.find(phrase) != std::string::npos, c,
             text("expected '", phrase, "' in '", message, "'"));
  };
}

}  // namespace

std::vector<Case> mismatches() {
  return {
      {"kind", mismatched(
                   [](Communicator& c, bool odd) {
                     return odd ? c.broadcast(zeros(c, 600), 0) : c.all_reduce(zeros(c, 600), Reduction::sum);
                   },
                   "all_reduce #0", "broadcast #0")},
      {"size", mismatched([](Communicator& c, bool odd) { return c.broadcast(zeros(c, odd ? 9 : 8), 0); },
                          "(32 bytes of f32", "(36 bytes of f32")},
      {"large size",
       mismatched(
           [](Communicator& c, bool odd) { return c.all_reduce(zeros(c, odd ? 9000 : 800), Reduction::sum); },
           "3200 bytes", "36000 bytes")},
      {"dtype",
       mismatched([](Communicator& c,
                     bool odd) { return c.all_reduce(zeros(c, 8, odd ? i32 : f32), Reduction::sum); },
                  "32 bytes of f32", "32 bytes of i32")},
      {"unit", mismatched(
                   [](Communicator& c, bool odd) {
                     return c.all_gather(zeros(c, 7 * c.size()), zeros(c, 7),
                                         {.unit = odd ? "blocks.4" : "blocks.3"});
                   },
                   "unit 'blocks.3'", "unit 'blocks.4'")},
      {"reduction",
       mismatched([](Communicator& c,
                     bool odd) { return c.all_reduce(zeros(c, 8), odd ? Reduction::max : Reduction::avg); },
                  "avg", "max")},
      {"root", mismatched([](Communicator& c, bool odd) { return c.broadcast(zeros(c, 8), odd ? 1 : 0); },
                          "root 0", "root 1")},
      {"one call more", mismatched(
                            [](Communicator& c, bool odd) {
                              if (odd) c.barrier();
                              return c.all_reduce(zeros(c, 8), Reduction::sum);
                            },
                            "barrier #0", "all_reduce #0")},
      {"count of an all_to_all", mismatched(
                                     [](Communicator& c, bool odd) {
                                       std::vector<int64_t> out(static_cast<size_t>(c.size()), 2), in = out;
                                       if (odd) in[0] = 3;
                                       const int64_t n = 2 * c.size();
                                       return c.all_to_all(zeros(c, n), out, zeros(c, odd ? n + 1 : n), in);
                                     },
                                     "has 3 elements for rank 0", "which expects 2")},
      {"size of a message", mismatched(
                                [](Communicator& c, bool odd) {
                                  if (odd) return c.send(zeros(c, 5), 0);
                                  return c.rank() == 0 ? c.recv(zeros(c, 6), 1) : Work();
                                },
                                "send #0 (20 bytes", "recv #0 (24 bytes")},
  };
}

}  // namespace tessera::dist::conformance
