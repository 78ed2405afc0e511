// The product of exactness on a real model: 20 prompts in every setting. Two hours or so on two
// cores, and not part of the default tests. Parts that passed are noted in FILE and not run again,
// until this program, the model or a head has other contents.
//   exactness_full FILE [MODEL [PROMPTS [MAX_NEW]]]
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <set>

#include "bench/spec/run_files.h"
#include "bench/spec/spec_log.h"
#include "core/stopwatch.h"
#include "models.h"

namespace talon::test {
namespace {

/// The lines of a file that say which parts passed.
class PassedParts {
 public:
  PassedParts(const std::filesystem::path& file, std::string about)
      : about_(std::move(about)), out_(file, std::ios::app) {
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) lines_.insert(line);
  }
  bool contains(const std::string& part) const { return lines_.contains(about_ + part); }
  void add(const std::string& part) { out_ << about_ << part << std::endl; }

 private:
  std::string about_;
  std::set<std::string> lines_;
  std::ofstream out_;
};

/// Drafters that need no file, in every setting.
ExactnessPlan lookup_plan(ExactnessPlan plan) {
  plan.drafters = {"none", "ngram"};
  plan.hits = {0.7};
  return plan;
}

/// All drafters, with the heads in models/, alone and joined, in the settings that change what a
/// head sees.
ExactnessPlan heads_plan(ExactnessPlan plan) {
  for (const char* head : {"smollm2-eagle2", "smollm2-eagle3", "smollm2-medusa"}) {
    plan.heads.push_back(std::filesystem::path(TALON_SHIPPED_HEADS) / head);
  }
  plan.hits = {};
  plan.merged = true;
  plan.chunks = {7, 1024};
  plan.threads = {2};
  plan.prompts.resize(std::min<std::size_t>(plan.prompts.size(), 6));
  return plan;
}

/// Of what answers come from.
std::string fingerprint_of(const ExactnessPlan& plan) {
  Json contents = {contents_of("/proc/self/exe"), contents_of(plan.model)};
  for (const std::filesystem::path& head : plan.heads) contents.push_back(contents_of(head));
  return run_fingerprint(contents);
}

int run(const std::filesystem::path& file, ExactnessPlan plan) {
  plan.make_backend = cpu_backend;
  plan.samplers = standard_samplers();
  plan.samplers.push_back({.temperature = 0.3, .top_k = 30});
  plan.samplers.push_back({.temperature = 1.2, .top_p = 0.95});
  plan.policies = {"fixed"};  // the others run on stories260K in the default tests
  int differences = 0;
  for (const auto& [name, part_plan] :
       {std::pair{"lookup", lookup_plan(plan)}, std::pair{"heads", heads_plan(plan)}}) {
    PassedParts passed(file, fmt::format("{}, {}, {} prompts, {} tokens, {}: ",
                                         fingerprint_of(part_plan), plan.model.filename().string(),
                                         part_plan.prompts.size(), plan.max_new, name));
    ExactnessPlan todo = part_plan;
    todo.is_done = [&passed](const std::string& part) { return passed.contains(part); };
    const Stopwatch watch;
    std::size_t before = 0;
    const ExactnessReport report =
        check_exactness(todo, [&](const std::string& part, const ExactnessReport& so_far) {
          if (so_far.differences.size() == before) passed.add(part);
          before = so_far.differences.size();
          std::cerr << fmt::format("{}: {}, {} cases, {} differences, {:.0f} s\n", name, part,
                                   so_far.cases, before, watch.ms() / 1000);
        });
    for (const std::string& line : report.differences) std::cout << line << "\n";
    for (const auto& [drafter, tau] : report.tau) std::cout << drafter << ": tau " << tau << "\n";
    for (const std::string& line : report.skipped) std::cout << "skipped " << line << "\n";
    std::cout << name << ": " << report.cases << " cases, " << report.tokens << " tokens, "
              << report.differences.size() << " differences\n";
    differences += static_cast<int>(report.differences.size());
  }
  return differences == 0 ? 0 : 1;
}

}  // namespace
}  // namespace talon::test

int main(int argc, char** argv) {
  using namespace talon::test;
  if (argc < 2 || argv[1][0] == '-') {
    std::cerr << "usage: exactness_full FILE [MODEL [PROMPTS [MAX_NEW]]]\n";
    return 2;
  }
  ExactnessPlan plan;
  plan.strength = ExactnessPlan::kAxes;
  plan.model = argc > 2 ? std::filesystem::path(argv[2]) : kSmollm2;
  plan.prompts = question_prompts(plan.model,
                                  argc > 3 ? static_cast<std::size_t>(std::atoi(argv[3])) : 20, 48);
  plan.max_new = argc > 4 ? std::atoi(argv[4]) : 16;
  return run(argv[1], std::move(plan));
}
