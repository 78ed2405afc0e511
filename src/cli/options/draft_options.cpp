#include "cli/options/draft_options.h"

#include "cli/options/flags.h"
#include "cli/terminal/console.h"
#include "core/error.h"
#include "runtime/heads/auto_drafter.h"
#include "tree/policy_registry.h"
#include "verify/verifier.h"

namespace talon {
namespace {

constexpr const char* kDraftGroup = "Drafting (talon help methods)";

}  // namespace

void add_drafter_flag(CLI::App& app, DecodeSettings& settings) {
  app.add_option(
         "-d,--drafter", settings.drafter,
         "name[:key=value,...][@policy=POLICY][@verify=RULE]; auto: the strongest head of the "
         "model, else its own prediction layer (mtp), joined with suffix (jacobi where it draws), "
         "else that alone; none: plain decoding")
      ->type_name("DRAFTER")
      ->capture_default_str()
      ->group(kDraftGroup);
}

void split_drafter(const CLI::App& app, DecodeSettings& settings) {
  const MethodText method = parse_method(settings.drafter);
  const auto refuse_other = [&](const char* flag, const std::string& here,
                                const std::string& given) {
    if (here.empty() || here == given || app.get_option(flag)->count() == 0) return;
    throw UsageError(
        fmt::format("{}: expected {}, as behind the drafter of -d, or none there, "
                    "got \"{}\"",
                    flag, here, given));
  };
  refuse_other("--policy", method.policy, settings.policy);
  refuse_other("--verify", method.verify, settings.verify);
  settings = with_method(std::move(settings), method);
  // These throw for what does not exist. Files that they read are small.
  make_policy(settings.policy);
  make_verifier(settings.verify);
  resolve_drafter(settings.drafter, {});
}

bool keeps_tokens(const DecodeSettings& settings) {
  return make_verifier(settings.verify)->name() == "follow";
}

void choose_drafter(DecodeSettings& settings, OutputKind output) {
  const std::string chosen = resolve_drafter(settings.drafter, settings.heads, output);
  if (chosen != settings.drafter) note("{}: {}", settings.drafter, chosen);
  settings.drafter = chosen;
}

void add_decode_flags(CLI::App& app, DecodeSettings& settings) {
  app.add_option("--policy", settings.policy, "how large trees are")
      ->type_name("POLICY")
      ->capture_default_str()
      ->group(kDraftGroup);
  app.add_option("--verify", settings.verify, "which drafted tokens become text")
      ->type_name("RULE")
      ->capture_default_str()
      ->group(kDraftGroup);
  add_int(app, "--max-nodes", settings.max_nodes, 1, 1024,
          "most drafted tokens of one answer in one check")
      ->group(kDraftGroup);
  add_int(app, "--chunk", settings.chunk, 1, 1 << 16, "prompt rows of one forward")
      ->group(kDraftGroup);
}

}  // namespace talon
