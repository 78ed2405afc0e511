#include "cli_hub.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <span>

#include "io/json.h"
#include "io/sha256.h"

namespace talon::test {

Files repository(const std::string& name, const Files& files, const Revision& revision) {
  Json siblings = Json::array();
  Files answers;
  for (const auto& [path, bytes] : files) {
    siblings.push_back({{"rfilename", path},
                        {"size", bytes.size()},
                        {"lfs", {{"sha256", sha256_of(std::as_bytes(std::span(bytes)))}}}});
    answers["/" + name + "/resolve/" + revision.commit + "/" + path] = bytes;
  }
  answers["/api/models/" + name + "/revision/" + revision.name + "?blobs=true"] =
      Json{{"sha", revision.commit}, {"siblings", siblings}}.dump();
  return answers;
}

Files files_in(const std::string& folder) {
  Files files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name != "talon.listing.json") files[name] = read_file(entry.path());
  }
  return files;
}

Outcome pull(const FileServer& hub, const Folder& models, const std::string& name,
             const std::vector<std::string>& more, const std::vector<std::string>& environment) {
  Start start{
      .arguments = {"pull", name, "--models", models.path().string(), "--hub", hub.address()},
      .environment = {"HF_HUB_OFFLINE="}};
  start.arguments.insert(start.arguments.end(), more.begin(), more.end());
  start.environment.insert(start.environment.end(), environment.begin(), environment.end());
  start.environment.push_back("HF_HOME=" + models.path().string());
  return run_talon(start);
}

std::string inspected(const Folder& models, const std::string& what,
                      const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"inspect", what, "--json", "--models",
                                        models.path().string()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Outcome outcome = run_talon(arguments);
  EXPECT_EQ(outcome.code, 0) << outcome.notes;
  return outcome.output;
}

}  // namespace talon::test
