/* SPDX-License-Identifier: Apache-2.0
 *
 * CUDA's calls and its devices' work, through CUPTI. libcuda brings the collector in by CUDA_INJECTION64_PATH.
 */
#ifndef PLN_CUPTI_H
#define PLN_CUPTI_H

/* For processes without that variable: brings the collector in if libcuda is loaded, or will be by the runtime. */
void pln_cupti_look(void);

#endif
