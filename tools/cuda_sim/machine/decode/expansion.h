// A kernel with every function that it calls written in place of the call.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tools/cuda_sim/machine/decode/names.h"
#include "tools/cuda_sim/ptx/tree.h"

namespace tessera::cuda_sim {

/// A function's body, expanded once: the kernel's own or a call's.
struct Frame {
  bool is_kernel = false;
  uint32_t end = 0;  ///< index of the step behind its last one: where `ret` goes on
};

/// One instruction of the expanded kernel.
struct Step {
  const ptx::Statement* statement = nullptr;
  NameScope* scope = nullptr;
  const Frame* frame = nullptr;
  /// A call with a guard begins with a jump over the called function where the guard does not hold; `skips`
  /// is that function's frame.
  const Frame* skips = nullptr;
};

/// Expands `kernel`. Parameters of called functions become local bytes of the thread: those that the caller
/// declares, under the callee's names.
class Expansion {
 public:
  /// `globals` are the addresses of the module's .global and .const variables.
  Expansion(const ptx::Module& module, const ptx::Function& kernel,
            const std::map<const ptx::Variable*, uint64_t>& globals);

  const std::vector<Step>& steps() const { return steps_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  uint32_t parameter_bytes() const { return parameter_bytes_; }
  uint32_t local_bytes() const { return local_bytes_; }
  uint32_t static_shared_bytes() const { return shared_bytes_; }
  bool uses_dynamic_shared() const { return uses_dynamic_shared_; }
  /// Offset of dynamic shared memory behind the static variables.
  uint32_t dynamic_shared_offset() const { return round_up(shared_bytes_, dynamic_alignment_); }

 private:
  void declare_kernel_parameters(const ptx::Function& kernel, NameScope& scope);
  void expand_body(const ptx::Function& function, NameScope& scope, Frame& frame);
  void expand_statement(const ptx::Statement& statement, NameScope& scope, const Frame& frame);
  void expand_call(const ptx::Statement& statement, NameScope& scope, const Frame& frame);
  void bind(const ptx::Statement& call, const std::string& function, const char* what,
            const std::vector<ptx::FunctionParameter>& formal, const std::vector<ptx::Operand>& actual,
            NameScope& caller, NameScope& callee);
  void declare_variable(const ptx::Variable& variable, NameScope& scope);
  void declare_used(const ptx::Operand& operand, NameScope& scope);
  void place_shared(const ptx::Variable& variable, NameScope& scope);
  const ptx::Function* find_function(const std::string& name) const;
  NameScope& new_scope(NameScope* parent);

  const ptx::Module* module_;
  const ptx::Function* kernel_;
  const std::map<const ptx::Variable*, uint64_t>* globals_;
  std::vector<Step> steps_;
  std::vector<Parameter> parameters_;
  std::vector<std::unique_ptr<NameScope>> scopes_;
  std::vector<std::unique_ptr<Frame>> frames_;
  std::map<const ptx::Variable*, uint32_t> shared_;
  std::vector<const ptx::Function*> active_calls_;
  NameScope* module_scope_ = nullptr;
  uint32_t parameter_bytes_ = 0, local_top_ = 0, local_bytes_ = 0, shared_bytes_ = 0, dynamic_alignment_ = 16;
  bool uses_dynamic_shared_ = false;
};

/// A call's parts: results, name and arguments (PTX ISA, "call").
struct CallOperands {
  std::vector<ptx::Operand> results, arguments;
  std::string function;
};
/// @throws std::runtime_error for a call through a pointer.
CallOperands call_operands(const ptx::Statement& call, const std::string& kernel);

/// Throws std::runtime_error: kernel, PTX line, text, what.
[[noreturn]] void refuse(const ptx::Statement& statement, const std::string& kernel, std::string_view what);

}  // namespace tessera::cuda_sim
