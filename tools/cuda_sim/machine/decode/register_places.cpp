#include "tools/cuda_sim/machine/decode/register_places.h"

#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <set>
#include <vector>

#include "tools/cuda_sim/machine/decode/special_registers.h"

namespace tessera::cuda_sim {

namespace {

constexpr uint32_t none = std::numeric_limits<uint32_t>::max();

/// One bit per register.
using Bits = std::vector<uint64_t>;

bool is_set(const Bits& bits, uint32_t i) {
  return (bits[i / 64] >> (i % 64) & 1) != 0;
}
void set(Bits& bits, uint32_t i) {
  bits[i / 64] |= uint64_t{1} << (i % 64);
}

/// Instructions that follow each other without a jump in or out.
struct BasicBlock {
  uint32_t begin = 0, end = 0;
  std::vector<uint32_t> next;  ///< blocks
  Bits used;                   ///< read before they are written
  Bits written;                ///< by all lanes that come along, before they are read
  Bits live_in;
};

struct LiveRange {
  uint32_t begin = none, end = 0;  ///< first and last instruction
  uint32_t bytes = 0;

  void extend(uint32_t at) {
    begin = std::min(begin, at);
    end = std::max(end, at);
  }
};

class PlaceSharing {
 public:
  explicit PlaceSharing(Program& program) : program_(&program) {}
  void run();

 private:
  template <class Visit>
  static void visit_places(Instruction& instruction, Visit visit);
  bool is_own(Place place) const {
    return !place.is_absent() && place.bank() == 0 && place.offset() >= special_register_bytes;
  }
  uint32_t number_of(Place place) const { return numbers_.at(place.offset()); }
  void number_registers();
  void find_blocks();
  std::vector<uint32_t> successors(uint32_t index) const;
  void find_uses(BasicBlock& block);
  void find_live();
  void find_ranges();
  std::vector<uint32_t> assign();

  Program* program_;
  std::map<uint32_t, uint32_t> numbers_;  ///< of registers, by offset
  std::vector<LiveRange> ranges_;         ///< by number
  std::vector<BasicBlock> blocks_;
};

/// Calls visit(place, is_written) for the places of an instruction, those read first.
template <class Visit>
void PlaceSharing::visit_places(Instruction& instruction, Visit visit) {
  visit(instruction.guard, false);
  for (Place& place : instruction.source) visit(place, false);
  for (Place& place : instruction.destination) visit(place, true);
}

void PlaceSharing::number_registers() {
  for (Instruction& instruction : program_->code)
    visit_places(instruction, [&](Place place, bool) {
      if (is_own(place)) numbers_[place.offset()] = 0;
    });
  uint32_t number = 0;
  for (auto it = numbers_.begin(); it != numbers_.end(); ++it) {
    it->second = number++;
    const auto next = std::next(it);
    ranges_.push_back(
        {.bytes = (next == numbers_.end() ? program_->register_bytes : next->first) - it->first});
  }
}

std::vector<uint32_t> PlaceSharing::successors(uint32_t index) const {
  const Instruction& instruction = program_->code[index];
  std::vector<uint32_t> next;
  if (instruction.flow == Flow::branch) next.push_back(instruction.target);
  if (instruction.flow == Flow::branch_table)
    next = program_->branch_tables[static_cast<size_t>(instruction.immediate)];
  const bool always_leaves = instruction.flow == Flow::branch || instruction.flow == Flow::branch_table ||
                             instruction.flow == Flow::exit;
  if ((!always_leaves || !instruction.guard.is_absent()) && index + 1 < program_->code.size())
    next.push_back(index + 1);
  return next;
}

void PlaceSharing::find_blocks() {
  const auto size = static_cast<uint32_t>(program_->code.size());
  std::set<uint32_t> begins{0};
  for (uint32_t i = 0; i < size; ++i) {
    const std::vector<uint32_t> next = successors(i);
    if (next.size() == 1 && next[0] == i + 1) continue;
    begins.insert(next.begin(), next.end());
    if (i + 1 < size) begins.insert(i + 1);
  }
  std::map<uint32_t, uint32_t> block_at;
  for (auto it = begins.begin(); it != begins.end(); ++it) {
    const auto after = std::next(it);
    block_at[*it] = static_cast<uint32_t>(blocks_.size());
    BasicBlock block;
    block.begin = *it;
    block.end = after == begins.end() ? size : *after;
    blocks_.push_back(std::move(block));
  }
  for (BasicBlock& block : blocks_)
    for (const uint32_t index : successors(block.end - 1)) block.next.push_back(block_at.at(index));
}

// A write with a guard leaves the value of other lanes, so it ends no live range.
void PlaceSharing::find_uses(BasicBlock& block) {
  const size_t words = (ranges_.size() + 63) / 64;
  block.used.assign(words, 0);
  block.written.assign(words, 0);
  block.live_in.assign(words, 0);
  for (uint32_t i = block.begin; i < block.end; ++i) {
    Instruction& instruction = program_->code[i];
    visit_places(instruction, [&](Place place, bool is_written) {
      if (!is_own(place)) return;
      const uint32_t number = number_of(place);
      const bool keeps = !is_written || !instruction.guard.is_absent();
      if (keeps && !is_set(block.written, number)) set(block.used, number);
      if (!keeps && !is_set(block.used, number)) set(block.written, number);
    });
  }
}

void PlaceSharing::find_live() {
  for (BasicBlock& block : blocks_) find_uses(block);
  for (bool changes = true; changes;) {
    changes = false;
    for (size_t b = blocks_.size(); b-- > 0;) {
      BasicBlock& block = blocks_[b];
      for (size_t word = 0; word < block.live_in.size(); ++word) {
        uint64_t live = 0;
        for (const uint32_t next : block.next) live |= blocks_[next].live_in[word];
        live = (live & ~block.written[word]) | block.used[word];
        changes = changes || live != block.live_in[word];
        block.live_in[word] = live;
      }
    }
  }
}

void PlaceSharing::find_ranges() {
  for (uint32_t i = 0; i < program_->code.size(); ++i)
    visit_places(program_->code[i], [&](Place place, bool) {
      if (is_own(place)) ranges_[number_of(place)].extend(i);
    });
  const auto extend_live = [this](const Bits& live, uint32_t at) {
    for (uint32_t number = 0; number < ranges_.size(); ++number)
      if (is_set(live, number)) ranges_[number].extend(at);
  };
  for (const BasicBlock& block : blocks_) {
    extend_live(block.live_in, block.begin);
    for (const uint32_t next : block.next) extend_live(blocks_[next].live_in, block.end - 1);
  }
}

// What an instruction reads and what it writes never share a place.
std::vector<uint32_t> PlaceSharing::assign() {
  std::vector<uint32_t> order(ranges_.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return ranges_[a].begin < ranges_[b].begin; });
  struct Busy {
    uint32_t end, offset, bytes;
    bool operator>(const Busy& other) const { return end > other.end; }
  };
  std::priority_queue<Busy, std::vector<Busy>, std::greater<>> busy;
  std::map<uint32_t, std::vector<uint32_t>> unused;  // offsets, by bytes
  std::vector<uint32_t> offsets(ranges_.size());
  uint32_t top = special_register_bytes;
  for (const uint32_t number : order) {
    const LiveRange& range = ranges_[number];
    for (; !busy.empty() && busy.top().end < range.begin; busy.pop())
      unused[busy.top().bytes].push_back(busy.top().offset);
    std::vector<uint32_t>& same_bytes = unused[range.bytes];
    if (same_bytes.empty()) {
      offsets[number] = top;
      top += range.bytes;
    } else {
      offsets[number] = same_bytes.back();
      same_bytes.pop_back();
    }
    busy.push({range.end, offsets[number], range.bytes});
  }
  program_->register_bytes = top;
  return offsets;
}

void PlaceSharing::run() {
  number_registers();
  find_blocks();
  find_live();
  find_ranges();
  const std::vector<uint32_t> offsets = assign();
  for (Instruction& instruction : program_->code)
    visit_places(instruction, [&](Place& place, bool) {
      if (is_own(place)) place = Place::in_register(offsets[number_of(place)]);
    });
}

}  // namespace

void share_register_places(Program& program) {
  PlaceSharing(program).run();
}

}  // namespace tessera::cuda_sim
