#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/test_model.h"
#include "engine_situation.h"
#include "io/test_files.h"
#include "text/tokenizer.h"

namespace talon::fuzz {

/// A model on one thread, what may draft for it, and an engine that answers plainly. It stays where
/// it is: engines borrow it.
class FuzzModel {
 public:
  /// Heads with random weights are written below `folder`.
  FuzzModel(std::string name, const std::filesystem::path& files, WeightLayout weights,
            const std::filesystem::path& folder);
  FuzzModel(const FuzzModel&) = delete;
  FuzzModel& operator=(const FuzzModel&) = delete;

  const std::string& name() const { return name_; }
  test::TestModel& model() { return model_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  Askable askable() const;
  const MethodParts& parts() const { return parts_; }
  /// Alone, of an empty cache with plenty of room.
  FullAnswer answer(Request request);

 private:
  test::TestOptions plain_options() const;
  bool takes(const std::string& drafter, const std::string& policy);
  void find_drafters(const std::filesystem::path& heads);

  std::string name_;
  test::TestModel model_;
  std::unique_ptr<Tokenizer> tokenizer_;
  test::TestEngine plain_;
  std::vector<std::shared_ptr<const ConstraintSource>> constraints_;
  MethodParts parts_;
};

/// The models that situations are of, each loaded when it is first asked for.
class FuzzModels {
 public:
  FuzzModels();
  FuzzModel& any(Chooser& choose);

 private:
  FuzzModel& named(const std::string& name);

  test::TemporaryFolder folder_;
  std::map<std::string, std::unique_ptr<FuzzModel>> models_;  // by name
};

}  // namespace talon::fuzz
