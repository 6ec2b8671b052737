#include "tools/cuda_sim/checks/races/race_reporter.h"

#include <bit>

#include "tools/cuda_sim/checks/address_text.h"
#include "tools/cuda_sim/checks/site.h"
#include "tools/cuda_sim/machine/block.h"
#include "tools/cuda_sim/machine/device.h"

namespace tessera::cuda_sim {

namespace {

std::string thread_text(const Epoch& epoch, LaneMask lanes) {
  const uint32_t first = epoch.warp * warp_lanes;
  std::string text =
      std::has_single_bit(lanes)
          ? "thread " + std::to_string(first + static_cast<uint32_t>(std::countr_zero(lanes)))
          : "threads of " + std::to_string(first + static_cast<uint32_t>(std::countr_zero(lanes))) + " to " +
                std::to_string(first + 31 - static_cast<uint32_t>(std::countl_zero(lanes)));
  return text + " of block " + std::to_string(epoch.block);
}

std::string kind_text(AccessKind kind) {
  switch (kind) {
    case AccessKind::plain_read:
      return "the read";
    case AccessKind::plain_write:
      return "the write";
    case AccessKind::strong_read:
    case AccessKind::block_read:
      return "the volatile or relaxed read";
    default:
      return "the atomic or volatile write";
  }
}

}  // namespace

bool RaceReporter::is_news(Check check, LaneMask lanes, Site& site) {
  has_faults_ = true;
  const uint32_t bit = 1u << static_cast<unsigned>(check);
  if ((reported_ & bit) != 0 || !findings_.is_on(check)) return false;
  reported_ |= bit;
  const LaneMask mine = (lanes & access_.lanes) != 0 ? lanes & access_.lanes : access_.lanes;
  site = site_of(warp_, instruction_, std::countr_zero(mine));
  return !findings_.add_again(check, site);
}

std::string RaceReporter::where(uint64_t address) const {
  if (is_shared_) return "shared memory at offset " + std::to_string(address - shared_begin);
  return describe_address(warp_.block().device().memory(), address);
}

void RaceReporter::uninitialised(const AccessPart& part, const CellRun& run) {
  Site site;
  if (!is_news(Check::initialisation, part.by.lanes_at(run.address), site)) return;
  findings_.add(Check::initialisation,
                describe_access(access_) + " of bytes never written: " + where(run.address), site);
}

void RaceReporter::race(const AccessPart& part, uint64_t address, const SetEntry& earlier) {
  const Check check = is_shared_ ? Check::shared_race : Check::global_race;
  Site site;
  if (!is_news(check, part.by.lanes_at(address), site)) return;
  findings_.add(check,
                describe_access(access_) + " in no order with " + kind_text(earlier.kind) + " by " +
                    thread_text(epochs_.at(earlier.stamp.epoch()), earlier.lanes_at(address)) + ": " +
                    where(address),
                site);
}

void RaceReporter::same_bytes(const AccessPart& part) {
  const Check check = is_shared_ ? Check::shared_race : Check::global_race;
  Site site;
  if (!is_news(check, part.by.lanes_at(part.address), site)) return;
  findings_.add(check,
                describe_access(access_) + " by " +
                    std::to_string(std::popcount(part.by.lanes_at(part.address))) +
                    " lanes of the warp at one address: " + where(part.address),
                site);
}

void RaceReporter::operation_race(const AccessPart& part, const CellRun& run, Operation earlier, bool wrote) {
  Site site;
  if (!is_news(Check::stream_race, part.by.lanes_at(run.address), site)) return;
  findings_.add(Check::stream_race,
                describe_access(access_) + " in no order with the " + (wrote ? "write" : "read") + " by " +
                    warp_.block().device().order().describe(earlier) + ": " + where(run.address),
                site);
}

void RaceReporter::in_flight(const AccessPart& part, const CellRun& run) {
  Site site;
  if (!is_news(Check::copy_in_flight, part.by.lanes_at(run.address), site)) return;
  findings_.add(Check::copy_in_flight,
                describe_access(access_) + " while cp.async writes these bytes: " + where(run.address), site);
}

}  // namespace tessera::cuda_sim
