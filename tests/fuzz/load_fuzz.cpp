// Targets and draft heads whose configuration, header or tensors are damaged: each is refused with
// an Error or loads and decodes a little. A crash, a Bug or another exception is a finding.
// Options: seed_run.h.
#include <sys/resource.h>

#include <fstream>
#include <iterator>

#include "draft/registry.h"
#include "io/test_files.h"
#include "model_mutator.h"
#include "models.h"
#include "random_heads.h"
#include "seed_run.h"

namespace talon::fuzz {
namespace {

using test::TestEngine;
using test::TestModel;

struct Source {
  std::filesystem::path folder;
  std::string drafter;  // that takes it as head; empty: it is a target
};

std::string read(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void write(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

void limit_memory() {
#if !defined(__SANITIZE_ADDRESS__)
  const rlimit limit{6UL << 30, 6UL << 30};
  setrlimit(RLIMIT_AS, &limit);
#endif
}

class LoadFuzzer {
 public:
  LoadFuzzer() {
    limit_memory();
    const std::filesystem::path golden = TALON_TEST_DATA "/golden/stories260k";
    sources_ = {{golden / "target", ""},
                {golden / "eagle1_head", "eagle"},
                {golden / "eagle1_head", "eagle2"},
                {golden / "eagle3_head", "eagle3"},
                {golden / "eagle3_head_fullvocab", "eagle3"}};
    for (const auto& head : test::write_random_heads(folder_.path(), model_.model.config)) {
      if (head.string().find("medusa") != std::string::npos) sources_.push_back({head, "medusa"});
    }
  }

  std::optional<std::string> run(std::uint64_t seed) {
    Chooser choose(seed);
    const Source& source = choose.one_of(sources_);
    ModelFiles files{read(source.folder / "config.json"),
                     read(source.folder / "model.safetensors")};
    damage(files, choose);
    const std::filesystem::path damaged = folder_.path() / "damaged";
    std::filesystem::create_directories(damaged);
    write(damaged / "config.json", files.config);
    write(damaged / "model.safetensors", files.weights);
    try {
      load(source, damaged);
    } catch (const Bug& bug) {
      return source.folder.filename().string() + ": " + bug.what();
    } catch (const Error&) {
    } catch (const std::bad_alloc&) {
    } catch (const std::exception& error) {
      return source.folder.filename().string() + ": " + error.what();
    }
    return std::nullopt;
  }

 private:
  void load(const Source& source, const std::filesystem::path& damaged) {
    if (source.drafter.empty()) {
      TestModel target(damaged, test::cpu_backend(1));
      decode(target, "ngram");
    } else {
      decode(model_, source.drafter + ":head=" + damaged.string() + ",nodes=20,levels=4");
    }
  }

  static void decode(TestModel& model, const std::string& drafter) {
    test::TestOptions options;
    options.policy = "fixed";
    TestEngine engine(model, make_drafter(drafter, {.target = &model.model}), options, 4);
    Request request;
    const auto vocabulary = static_cast<TokenId>(model.vocabulary());
    for (const TokenId token : {1, 313, 438, 347, 433}) {
      request.prompt.push_back(token < vocabulary ? token : vocabulary - 1);
    }
    request.max_new = 12;
    if (std::holds_alternative<Refusal>(engine.engine.submit(request))) return;
    while (!engine.engine.idle()) engine.engine.step();
  }

  TestModel model_{test::kStories260k, test::cpu_backend(1)};
  test::TemporaryFolder folder_;
  std::vector<Source> sources_;
};

}  // namespace
}  // namespace talon::fuzz

int main(int argc, char** argv) {
  return talon::fuzz::run_seeds(argc, argv, [] {
    return [fuzzer = std::make_shared<talon::fuzz::LoadFuzzer>()](std::uint64_t seed) {
      return fuzzer->run(seed);
    };
  });
}
