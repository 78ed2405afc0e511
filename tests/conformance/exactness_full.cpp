// The full product of exactness on a real model: 20 prompts and every setting. Minutes to hours;
// not part of the default tests.
//   exactness_full [MODEL [PROMPTS [MAX_NEW]]]
#include <cstdlib>
#include <iostream>

#include "io/test_files.h"
#include "models.h"
#include "random_heads.h"

int main(int argc, char** argv) {
  using namespace talon::test;
  ExactnessPlan plan;
  plan.model = argc > 1 ? std::filesystem::path(argv[1]) : kSmollm2;
  plan.make_backend = cpu_backend;
  plan.prompts = question_prompts(
      plan.model, argc > 2 ? static_cast<std::size_t>(std::atoi(argv[2])) : 20, 120);
  plan.max_new = argc > 3 ? std::atoi(argv[3]) : 16;
  plan.samplers = standard_samplers();
  plan.policies = all_policies();
  std::erase_if(plan.policies, [](const std::string& policy) {  // its predictor fits stories260K
    return policy.starts_with("ada_eagle");
  });
  const TemporaryFolder folder;  // random heads, for drafters without a trained one
  plan.heads = write_random_heads(folder.path(),
                                  talon::read_model_config(talon::open_checkpoint(plan.model)));
  plan.merged = true;
  const ExactnessReport report =
      check_exactness(plan, [](const std::string& line) { std::cerr << line << "\n"; });
  for (const std::string& line : report.differences) std::cout << line << "\n";
  for (const auto& [name, tau] : report.tau) std::cout << name << ": tau " << tau << "\n";
  for (const std::string& line : report.skipped) std::cout << "skipped " << line << "\n";
  std::cout << report.cases << " cases, " << report.tokens << " tokens, "
            << report.differences.size() << " differences\n";
  return report.differences.empty() ? 0 : 1;
}
