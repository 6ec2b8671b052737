// A kernel as the machine runs it: PTX, decoded once, with every operand resolved to a place.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <vector>

#include "tools/cuda_sim/machine/types.h"

namespace tessera::cuda_sim {

class Warp;
struct Instruction;

/// Carries an instruction out for the lanes `Warp::active()`, of which there is at least one.
using Execute = void (*)(Warp&, const Instruction&);

/// Bytes that begin at a cache line: registers and constants, so that no vector of lanes crosses one.
template <class T>
struct CacheLineAllocator {
  using value_type = T;
  CacheLineAllocator() = default;
  template <class U>
  explicit CacheLineAllocator(const CacheLineAllocator<U>&) {}
  T* allocate(size_t count) {
    return static_cast<T*>(::operator new (count * sizeof(T), std::align_val_t{64}));
  }
  void deallocate(T* memory, size_t) { ::operator delete (memory, std::align_val_t{64}); }
  bool operator==(const CacheLineAllocator&) const = default;
};
using LaneBytes = std::vector<std::byte, CacheLineAllocator<std::byte>>;

/// The place of an operand's 32 values. Registers lie in the warp; constants in the program, each stored once
/// per lane, so that an instruction reads both alike. Places are multiples of 64 bytes; the lowest bit is
/// the bank.
struct Place {
  uint32_t bits = absent_bits;

  static constexpr uint32_t absent_bits = 0xffffffffu;
  static constexpr Place in_register(uint32_t offset) { return {offset}; }
  static constexpr Place in_constants(uint32_t offset) { return {offset | 1}; }
  bool is_absent() const { return bits == absent_bits; }
  uint32_t bank() const { return bits & 1; }
  uint32_t offset() const { return bits & ~1u; }
};

/// How control goes on after an instruction.
enum class Flow : uint8_t {
  next,          ///< the instruction executes; the next one follows
  nothing,       ///< the next one follows, nothing executes
  branch,        ///< to `target` where the guard holds
  branch_table,  ///< brx.idx: to targets[source 0] of the program's table `immediate`
  exit,          ///< the lanes end
  named_lanes,   ///< waits until the lanes named by source[3] are here, then executes: shfl, vote, match,
                 ///< redux; bar.warp, where `execute` is null and lanes may wait at different ones
  whole_warp,    ///< waits until all lanes of the warp are here, then executes: mma, ldmatrix
  barrier,       ///< the warp stops at a barrier of its block; `Barrier` says which
};

/// The barrier of an instruction with Flow::barrier (PTX ISA, "barrier"). source[0] is its number, source[1]
/// the count of threads (absent: all), source[2] the predicate of a reduction, destination[0] what the
/// reduction gives. flags[0] is 1 where the lanes of a warp may arrive apart (barrier without .aligned).
enum class BarrierKind : uint8_t { sync, arrive, count, all, any };

/// One decoded instruction. `execute` knows what the fields mean. It reads the places in `guard` and `source`
/// and writes those in `destination`, and no others: registers share places by their use here.
struct Instruction {
  Execute execute = nullptr;
  Flow flow = Flow::next;
  Type type = Type::none;
  uint8_t bytes = 0;     ///< of one element of a memory access
  uint8_t elements = 1;  ///< of a vector access or of ldmatrix
  Space space = Space::generic;
  Order order = Order::plain;
  Scope scope = Scope::gpu;
  BarrierKind barrier = BarrierKind::sync;
  bool guard_negated = false;
  bool source_negated = false;     ///< the predicate operand is written !%p
  std::array<uint8_t, 3> flags{};  ///< of the instruction's own
  Place guard;                     ///< predicate; absent: always
  std::array<Place, 4> destination;
  std::array<Place, 16> source;
  int64_t immediate = 0;  ///< offset of an address, depth of a wait, ...
  uint32_t target = 0;    ///< of a branch: an index of Program::code
  uint32_t index = 0;     ///< its own index in Program::code
};

/// Where an instruction comes from.
struct SourceLine {
  uint32_t file = 0;  ///< index into Program::files
  uint32_t line = 0;  ///< 0: unknown (compiled without -lineinfo)
  std::string text;   ///< as PTX has it
};

/// A parameter of a kernel in its parameter block.
struct Parameter {
  std::string name;
  uint32_t offset = 0, bytes = 0;
};

/// A kernel.
struct Program {
  std::string name;           ///< mangled, as the object registers it
  std::string readable_name;  ///< demangled
  std::vector<Instruction> code;
  std::vector<SourceLine> lines;  ///< of each instruction
  std::vector<std::string> files;
  std::vector<std::vector<uint32_t>> branch_tables;
  LaneBytes constants;  ///< the bank of Place::in_constants
  std::vector<Parameter> parameters;
  uint32_t parameter_bytes = 0;
  uint32_t register_bytes = 0;  ///< of a warp: the bank of Place::in_register
  uint32_t static_shared_bytes = 0;
  uint32_t dynamic_shared_offset = 0;            ///< of dynamic shared memory, behind the static variables
  uint32_t local_bytes = 0;                      ///< of a thread
  uint32_t max_threads = max_threads_per_block;  ///< .maxntid
  uint32_t required_threads = 0;                 ///< .reqntid; 0: any
  bool uses_dynamic_shared = false;
};

/// Special registers (%tid.x, ...) lie first in a warp's registers, each 32 values of 4 bytes, in this order.
/// They are written when a block begins; what changes (%clock) is an instruction of its own.
enum class SpecialRegister : uint8_t {
  tid_x,
  tid_y,
  tid_z,
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  laneid,
  warpid,
  nwarpid,
  smid,
  nsmid,
  lanemask_eq,
  lanemask_lt,
  lanemask_le,
  lanemask_gt,
  lanemask_ge,
  dynamic_smem_size,
  total_smem_size,
  count,
};

}  // namespace tessera::cuda_sim
