#include "dist/simulate/machine_rates.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "dist/comm/interface/communicator.h"
#include "dist/launch/world.h"
#include "tensor/error.h"
#include "tensor/profile/machine_rates.h"
#include "tensor/profile/span.h"
#include "tensor/tensor.h"

namespace tessera::dist {
namespace {

bool is_rate(double rate) {
  return std::isfinite(rate) && rate > 0;
}

void validate_link(const LinkRates& link, const std::string& name) {
  require<ConfigError>(is_rate(link.bytes_per_second), "rates of the machine: ", name,
                       ": expected bytes a second above 0, got ", link.bytes_per_second);
  require<ConfigError>(std::isfinite(link.latency) && link.latency >= 0, "rates of the machine: ", name,
                       ": expected a latency of 0 or more seconds, got ", link.latency);
}

/// The median of the seconds that `call` takes, on the slowest rank.
template <class Call>
double slowest_median(Communicator& ranks, int times, const Call& call) {
  std::vector<double> seconds;
  for (int i = 0; i < times; ++i) {
    ranks.barrier();
    const int64_t began = profile_clock();
    call();
    seconds.push_back(1e-9 * static_cast<double>(profile_clock() - began));
  }
  std::nth_element(seconds.begin(), seconds.begin() + times / 2, seconds.end());
  const Tensor slowest = Tensor::from({seconds[static_cast<size_t>(times / 2)]});
  ranks.all_reduce(slowest, Reduction::max).wait();
  return slowest.data<double>()[0];
}

double slowest(Communicator& ranks, double rate) {
  const Tensor least = Tensor::from({-rate});
  ranks.all_reduce(least, Reduction::max).wait();
  return -least.data<double>()[0];
}

}  // namespace

const LinkRates& MachineRates::along(const std::string& dimension) const {
  const auto own = links.find(dimension);
  return own == links.end() ? link : own->second;
}

void MachineRates::validate() const {
  require<ConfigError>(is_rate(flops_per_second), "rates of the machine: expected FLOP/s above 0, got ",
                       flops_per_second);
  require<ConfigError>(is_rate(memory_bytes_per_second),
                       "rates of the machine: expected memory bytes a second above 0, got ",
                       memory_bytes_per_second);
  validate_link(link, "link");
  for (const auto& [dimension, own] : links) validate_link(own, "link along '" + dimension + "'");
  for (const double speed : speeds)
    require<ConfigError>(is_rate(speed), "rates of the machine: expected speeds of ranks above 0, got ",
                         speed);
}

MachineRates measure_machine(World& world) {
  Communicator& ranks = world.communicator();
  MachineRates rates;
  ranks.barrier();
  rates.flops_per_second = slowest(ranks, measured_product_rate(f32));
  ranks.barrier();
  rates.memory_bytes_per_second = slowest(ranks, measured_copy_rate(int64_t{1} << 26));
  rates.link = {rates.memory_bytes_per_second, 0};
  if (world.size() > 1) {
    constexpr int64_t elements = int64_t{1} << 20;
    const Tensor small = Tensor::zeros({1}, f32), large = Tensor::zeros({elements}, f32);
    const auto reduce = [&](const Tensor& values) {
      return slowest_median(ranks, 11, [&] { ranks.all_reduce(values, Reduction::sum).wait(); });
    };
    const auto rounds = 2.0 * static_cast<double>(std::bit_width(static_cast<unsigned>(world.size() - 1)));
    rates.link.latency = reduce(small) / rounds;
    const double sent = 2.0 * 4 * elements * (world.size() - 1) / world.size();
    // Within the noise of the latency a message is as fast as memory.
    const double moving = reduce(large) - rounds * rates.link.latency;
    if (moving > sent / rates.memory_bytes_per_second) rates.link.bytes_per_second = sent / moving;
  }
  rates.overlaps = false;
  return rates;
}

double collective_seconds(const LinkRates& link, int64_t bytes, int64_t ranks) {
  if (ranks <= 1) return 0;
  const auto rounds = static_cast<double>(std::bit_width(static_cast<uint64_t>(ranks - 1)));
  return rounds * link.latency + static_cast<double>(bytes) * static_cast<double>(ranks - 1) /
                                     static_cast<double>(ranks) / link.bytes_per_second;
}

}  // namespace tessera::dist
