#include <doctest/doctest.h>

#include "tools/cuda_sim/ptx/tree.h"

using namespace tessera::cuda_sim;
using namespace tessera::cuda_sim::ptx;

namespace {

const std::string header = ".version 9.0\n.target sm_90, debug\n.address_size 64\n";

Function parse_body(const std::string& body) {
  Module module = parse(header + ".entry k() {\n" + body + "\n}\n");
  REQUIRE(module.functions.size() == 1);
  return module.functions[0];
}

Statement parse_statement(const std::string& text) {
  const Function function = parse_body(text);
  REQUIRE(function.body.size() == 1);
  return std::get<Statement>(function.body[0]);
}

}  // namespace

TEST_CASE("PTX parser: a module's head, files, sections that are skipped") {
  const Module module = parse(header + R"(
// a comment
/* another
   one */
.file 1 "/source/norm.cu", 1700000000, 4000
.section .debug_str
{
$L__info_string0:
.b8 95,90,0
}
)");
  CHECK(module.version == "9.0");
  CHECK(module.target == "sm_90");
  CHECK(module.files.at(1) == "/source/norm.cu");
  CHECK(module.functions.empty());
}

TEST_CASE("PTX parser: directives without space between them") {
  const Function function =
      parse_body("{.reg.b32         f, C;\n mov.b32 f, C;}");  // as cuda_fp16.hpp has it
  REQUIRE(function.body.size() == 5);
  CHECK(std::get<RegisterDeclaration>(function.body[2]).name == "C");
  CHECK(std::get<RegisterDeclaration>(function.body[2]).type == Type::b32);
}

TEST_CASE("PTX parser: opcode, modifiers, guard, text") {
  const Statement statement = parse_statement("@!%p1 ld.shared::cta.v2.f32\n  {%f1,\t_}, [%r2+-8];");
  CHECK(statement.guard == "%p1");
  CHECK(statement.guard_negated);
  CHECK(statement.opcode == "ld");
  CHECK(statement.modifiers == std::vector<std::string>{"shared::cta", "v2", "f32"});
  CHECK(statement.text == "@!%p1 ld.shared::cta.v2.f32 {%f1, _}, [%r2+-8]");
  CHECK(statement.text_line == 5);
  REQUIRE(statement.operands.size() == 2);
  CHECK(statement.operands[0].kind == Operand::Kind::vector);
  CHECK(statement.operands[0].parts[1].kind == Operand::Kind::sink);
  CHECK(statement.operands[1].kind == Operand::Kind::address);
  CHECK(statement.operands[1].name == "%r2");
  CHECK(statement.operands[1].value == -8);
}

TEST_CASE("PTX parser: constants") {
  const auto& operands = parse_statement(
                             "x 0f3F800000, 0d4000000000000000, 0x1F, -7, 017, 0b101, 4U, sym+12, %p|%q, "
                             "!%p, 0xffffffffffffffff;")
                             .operands;
  CHECK(operands[0].bits == 0x3f800000);
  CHECK(operands[0].float_bytes == 4);
  CHECK(operands[1].bits == 0x4000000000000000);
  CHECK(operands[1].float_bytes == 8);
  CHECK(operands[2].value == 31);
  CHECK(operands[3].value == -7);
  CHECK(operands[4].value == 15);
  CHECK(operands[5].value == 5);
  CHECK(operands[6].value == 4);
  CHECK(operands[7].name == "sym");
  CHECK(operands[7].value == 12);
  CHECK(operands[8].kind == Operand::Kind::pair);
  CHECK(operands[8].parts[1].name == "%q");
  CHECK(operands[9].is_negated);
  CHECK(operands[10].value == -1);
}

TEST_CASE("PTX parser: registers, variables, scopes, labels, tables") {
  const Function function = parse_body(R"(
    .reg .f32 %f<5>, %x;
    .local .align 16 .b8 depot[40];
    { .param .b64 param0; }
$L_1: ret;
T: .branchtargets $L_1, $L_1;
proto: .callprototype (.param .b32 _) _ (.param .b64 _);
    .pragma "nounroll";)");
  REQUIRE(function.body.size() == 9);
  CHECK(std::get<RegisterDeclaration>(function.body[0]).count == 5);
  CHECK(std::get<RegisterDeclaration>(function.body[0]).type == Type::f32);
  CHECK(std::get<RegisterDeclaration>(function.body[1]).name == "%x");
  CHECK(std::get<Variable>(function.body[2]).bytes == 40);
  CHECK(std::get<Variable>(function.body[2]).alignment == 16);
  CHECK(std::holds_alternative<ScopeBegin>(function.body[3]));
  CHECK(std::get<Variable>(function.body[4]).space == Space::parameter);
  CHECK(std::holds_alternative<ScopeEnd>(function.body[5]));
  CHECK(std::get<Label>(function.body[6]).name == "$L_1");
  CHECK(std::get<BranchTargets>(function.body[8]).labels.size() == 2);
}

TEST_CASE("PTX parser: initial values") {
  const Module module = parse(header + R"(
.visible .global .align 8 .u64 table[3] = {1, generic(other)+8, other};
.const .f32 pi = 0f40490FDB;
.global .v4 .f32 vectors[2];
.global .s16 nested[2][2] = {{1, -1}, {2}};
.global .align 8 .b8 mixed[10] = {7, 0xFF(other), 0xFF00(other), 0xFF0000(other), 0xFF000000(other), 0xFF00000000(other),
  0xFF0000000000(other), 0xFF000000000000(other), 0xFF00000000000000(other), 9};
.extern .shared .align 16 .b8 dynamic[];
.global .b8 open[] = {1, 2, 3};
)");
  const auto& variables = module.variables;
  CHECK(variables[0].is_visible);
  CHECK(variables[0].bytes == 24);
  REQUIRE(variables[0].addresses.size() == 2);
  CHECK(variables[0].addresses[0].at == 8);
  CHECK(variables[0].addresses[0].symbol == "other");
  CHECK(variables[0].addresses[0].offset == 8);
  CHECK(variables[1].initial == std::vector<uint8_t>{0xdb, 0x0f, 0x49, 0x40});
  CHECK(variables[2].bytes == 32);
  CHECK(variables[2].alignment == 16);
  CHECK(variables[3].initial == std::vector<uint8_t>{1, 0, 0xff, 0xff, 2, 0, 0, 0});
  CHECK(variables[4].initial[0] == 7);
  CHECK(variables[4].initial[9] == 9);
  REQUIRE(variables[4].addresses.size() == 1);
  CHECK(variables[4].addresses[0].at == 1);
  CHECK(variables[5].is_extern);
  CHECK(variables[5].bytes == 0);
  CHECK(variables[6].bytes == 3);
}

TEST_CASE("PTX parser: functions and kernels") {
  const Module module = parse(header + R"(
.extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b) ;
.func (.param .align 16 .b8 r[32]) f(.param .b32 a) .noreturn { ret; }
.visible .entry k(.param .u64 .ptr .global .align 4 p, .param .align 8 .b8 s[24])
.maxntid 128, 2, 1
.minnctapersm 2
{ ret; }
.weak .entry r() .reqntid 64 { ret; }
)");
  REQUIRE(module.functions.size() == 4);
  CHECK(!module.functions[0].has_body);
  CHECK(module.functions[1].results[0].bytes == 32);
  CHECK(module.functions[1].results[0].alignment == 16);
  CHECK(module.functions[2].is_kernel);
  CHECK(module.functions[2].parameters[0].name == "p");
  CHECK(module.functions[2].parameters[1].bytes == 24);
  CHECK(module.functions[2].max_threads == 256);
  CHECK(module.functions[3].required_threads == 64);
}

TEST_CASE("PTX parser: source lines; a line of the toolkit's headers gives the line that called it") {
  const Module module = parse(header + R"(.entry k() {
  ret;
  .loc 1 20 3
  ret;
  .loc 1 30 5, function_name $L__info_string0, inlined_at 1 20 3
  ret;
  .loc 2 99 1, function_name $L__info_string1+4, inlined_at 1 30 5
  .loc 2 98 1, function_name $L__info_string1, inlined_at 2 99 1
  ret;
}
.file 1 "/source/norm.cu"
.file 2 "/usr/local/cuda/bin/../targets/x86_64-linux/include/sm_30_intrinsics.hpp"
)");
  std::vector<uint32_t> lines, files;
  for (const Element& element : module.functions[0].body) {
    lines.push_back(std::get<Statement>(element).line);
    files.push_back(std::get<Statement>(element).file);
  }
  CHECK(lines == std::vector<uint32_t>{0, 20, 30, 30});
  CHECK(files == std::vector<uint32_t>{0, 1, 1, 1});
}

TEST_CASE("PTX parser: errors name line and text") {
  CHECK_THROWS_WITH(parse(header + ".entry k() {\n  add.u32 %r1 %r2;\n}"),
                    "PTX line 5: expected ';' at '%r2':   add.u32 %r1 %r2;");
  CHECK_THROWS_WITH(parse(header + ".entry k() {\n  ret;\n"),
                    doctest::Contains("expected '}' of function k, the text ends"));
  CHECK_THROWS_WITH(parse(header + ".texref t;"), doctest::Contains("unknown directive '.texref'"));
  CHECK_THROWS_WITH(parse(header + ".entry k() { .reg .v4 .f32 %x; }"),
                    doctest::Contains("registers that are vectors"));
  CHECK_THROWS_WITH(parse(header + ".entry k() { .reg .q9 %x; }"),
                    doctest::Contains("'.q9' is no type of a register"));
  CHECK_THROWS_WITH(parse(header + ".global .b8 x[2] = {1, 2, 3};"),
                    doctest::Contains("more initial values"));
  CHECK_THROWS_WITH(parse(".version 9.0\n.target sm_90\n.address_size 32\n"), doctest::Contains("64 bits"));
  CHECK_THROWS_WITH(parse(header + "add.u32 %r1, %r2;"), doctest::Contains("expected a directive"));
  CHECK_THROWS_WITH(parse(header + ".entry k() { mov.u32 %r1, 09; }"),
                    doctest::Contains("expected an integer"));
}
