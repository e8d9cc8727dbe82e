/* A plugin for qemu-user (plugin API 1): how often every block of the translated program was executed.
 *
 *   qemu-aarch64 -plugin count_blocks.so,out=FILE PROGRAM
 *
 * At the end FILE holds a line "ADDRESS INSTRUCTIONS EXECUTIONS" for each translated block, the address in hexadecimal.
 * A block may be there several times. The declarations are those of qemu-plugin.h, which distributions leave out.
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
enum { QEMU_PLUGIN_INLINE_ADD_U64 };

int qemu_plugin_version = 1;
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, int operation, void *counter, uint64_t);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, void *), void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);

struct block {
  uint64_t address, instructions, executions;
  struct block *next;
};

static _Atomic(struct block *) blocks;
static const char *path;

/* Called once per translated block, perhaps by several threads. The counter is added to in translated code. */
static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb) {
  struct block *block = malloc(sizeof *block);
  (void)id;
  if (block == NULL) abort();
  block->address = qemu_plugin_tb_vaddr(tb);
  block->instructions = qemu_plugin_tb_n_insns(tb);
  block->executions = 0;
  block->next = atomic_load(&blocks);
  while (!atomic_compare_exchange_weak(&blocks, &block->next, block)) {
  }
  qemu_plugin_register_vcpu_tb_exec_inline(tb, QEMU_PLUGIN_INLINE_ADD_U64, &block->executions, 1);
}

static void write_counts(qemu_plugin_id_t id, void *unused) {
  FILE *file = fopen(path, "w");
  (void)id, (void)unused;
  if (file == NULL) abort();
  for (const struct block *block = atomic_load(&blocks); block != NULL; block = block->next) {
    fprintf(file, "%" PRIx64 " %" PRIu64 " %" PRIu64 "\n", block->address, block->instructions, block->executions);
  }
  if (fclose(file) != 0) abort();
}

int qemu_plugin_install(qemu_plugin_id_t id, const void *machine, int count, char **arguments) {
  (void)machine;
  for (int i = 0; i < count; ++i) {
    if (strncmp(arguments[i], "out=", 4) == 0) path = strdup(arguments[i] + 4);
  }
  if (path == NULL) return 1;
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_atexit_cb(id, write_counts, NULL);
  return 0;
}
